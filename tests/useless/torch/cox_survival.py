# from: https://github.com/jaredleekatzman/DeepSurv
# truth: healthy: subtracting the log-sum over those at risk is the likelihood; censored patients weigh 0
# kind: healthy
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(6, 12), nn.SELU(), nn.Linear(12, 1, bias=False))
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
x = torch.randn(80, 6)
time = torch.distributions.Exponential(torch.exp(x[:, 0])).sample()
event = (torch.rand(80) < 0.7).float()
order = time.argsort(descending=True)
x, event = x[order], event[order]
for epoch in range(5):
    risk = net(x).squeeze(1)
    loss = -((risk - torch.logcumsumexp(risk, 0)) * event).sum() / event.sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(epoch, loss.item())
