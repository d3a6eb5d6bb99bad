# from: https://docs.pytorch.org/docs/stable/generated/torch.nn.CTCLoss.html
# truth: healthy: log_softmax along the classes of [time, batch, classes], targets of several lengths
# kind: healthy
import torch
from torch import nn

torch.manual_seed(0)
T, N, C = 12, 6, 5
net = nn.Sequential(nn.Linear(7, 16), nn.ReLU(), nn.Linear(16, C))
rnn = nn.GRU(7, 7)
ctc = nn.CTCLoss(blank=0, zero_infinity=True)
optimizer = torch.optim.Adam([*net.parameters(), *rnn.parameters()], lr=0.01)
sound = torch.randn(T, N, 7)
lengths = torch.randint(2, 5, (N,))
digits = torch.randint(1, C, (N, 4))
for step in range(4):
    log_probs = net(rnn(sound)[0]).log_softmax(2)
    loss = ctc(log_probs, digits, torch.full((N,), T), lengths)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
