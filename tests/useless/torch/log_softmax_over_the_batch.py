# from: https://github.com/fxia22/pointnet.pytorch/issues/27
# truth: the log_softmax runs over the batch and not over the classes, so that nll_loss gets no log-probabilities
# kind: not log-probabilities
import torch
import torch.nn.functional as F
from torch import nn


class Points(nn.Module):
    def __init__(self, classes=4):
        super().__init__()
        self.each = nn.Sequential(nn.Conv1d(3, 16, 1), nn.ReLU(), nn.Conv1d(16, 32, 1))
        self.head = nn.Sequential(nn.Linear(32, 16), nn.ReLU(), nn.Linear(16, classes))

    def forward(self, cloud):
        x = self.each(cloud).max(2).values
        return F.log_softmax(self.head(x), dim=0)  # <- here


torch.manual_seed(0)
label = torch.randint(0, 4, (24,))
cloud = torch.randn(24, 3, 20) * (1 + label[:, None, None].float())
model = Points()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for step in range(3):
    loss = F.nll_loss(model(cloud), label)  # <- here
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
