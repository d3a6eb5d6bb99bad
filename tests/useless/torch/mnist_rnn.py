# from: https://github.com/pytorch/examples/blob/main/mnist_rnn/main.py
# truth: healthy: only the last state is read, and a batch norm follows; all are trained
# kind: healthy
import torch
import torch.nn.functional as F
from torch import nn


class Rows(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(input_size=8, hidden_size=16, batch_first=True)
        self.norm = nn.BatchNorm1d(16)
        self.fc = nn.Linear(16, 3)

    def forward(self, rows):
        out, _ = self.rnn(rows)
        return F.log_softmax(self.fc(F.relu(self.norm(out[:, -1]))), dim=1)


torch.manual_seed(0)
labels = torch.randint(0, 3, (30,))
pictures = torch.randn(30, 8, 8) + labels[:, None, None]
model = Rows()
optimizer = torch.optim.Adadelta(model.parameters(), lr=0.5)
for epoch in range(4):
    optimizer.zero_grad()
    loss = F.nll_loss(model(pictures), labels)
    loss.backward()
    optimizer.step()
    print(epoch, loss.item())
