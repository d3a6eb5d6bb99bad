# from: https://github.com/pytorch/examples/blob/main/time_sequence_prediction/train.py
# truth: healthy: L-BFGS calls the closure many times, in double precision
# kind: healthy
import torch
from torch import nn


class Sequence(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.linear = nn.LSTMCell(1, 9), nn.Linear(9, 1)

    def forward(self, series):
        h, c, outputs = torch.zeros(len(series), 9).double(), torch.zeros(len(series), 9).double(), []
        for value in series.split(1, dim=1):
            h, c = self.lstm(value, (h, c))
            outputs.append(self.linear(h))
        return torch.cat(outputs, 1)


torch.manual_seed(0)
wave = torch.sin(torch.arange(15) / 2.0 + torch.rand(6, 1) * 6).double()
seq = Sequence().double()
criterion = nn.MSELoss()
optimizer = torch.optim.LBFGS(seq.parameters(), lr=0.8, max_iter=4)
for i in range(2):

    def closure():
        optimizer.zero_grad()
        loss = criterion(seq(wave[:, :-1]), wave[:, 1:])
        loss.backward()
        return loss

    print(i, optimizer.step(closure).item())
