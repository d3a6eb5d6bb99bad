# from: https://github.com/locuslab/TCN/blob/master/TCN/tcn.py
# truth: healthy: a direction divided by its own norm times a learned length; the padding is cut off at the end
# kind: healthy
import torch
from torch import nn
from torch.nn.utils.parametrizations import weight_norm


class Causal(nn.Module):
    def __init__(self, i, o, dilation):
        super().__init__()
        self.pad = 2 * dilation
        self.conv = weight_norm(nn.Conv1d(i, o, 3, padding=self.pad, dilation=dilation))
        self.down = nn.Conv1d(i, o, 1) if i != o else None

    def forward(self, x):
        out = torch.relu(self.conv(x)[..., : -self.pad])
        return torch.relu(out + (x if self.down is None else self.down(x)))


torch.manual_seed(0)
net, head = nn.Sequential(Causal(2, 8, 1), Causal(8, 8, 2)), nn.Linear(8, 1)
optimizer = torch.optim.Adam([*net.parameters(), *head.parameters()], lr=5e-3)
for step in range(4):
    values, marks = torch.rand(32, 1, 12), torch.zeros(32, 1, 12)
    for row in range(32):
        marks[row, 0, torch.randperm(12)[:2]] = 1
    target = (values * marks).sum(2)
    loss = nn.functional.mse_loss(head(net(torch.cat([values, marks], 1))[:, :, -1]), target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
