# from: https://github.com/pytorch/examples/blob/main/siamese_network/main.py
# truth: healthy: one network runs on both pictures of a pair, a sigmoid goes into BCELoss
# kind: healthy
import torch
from torch import nn


class Siamese(nn.Module):
    def __init__(self):
        super().__init__()
        self.tower = nn.Sequential(nn.Conv2d(1, 6, 3), nn.ReLU(), nn.Flatten(), nn.Linear(216, 12))
        self.fc = nn.Sequential(nn.Linear(24, 16), nn.ReLU(inplace=True), nn.Linear(16, 1))

    def forward(self, a, b):
        return torch.sigmoid(self.fc(torch.cat((self.tower(a), self.tower(b)), 1)))


torch.manual_seed(0)
model = Siamese()
optimizer = torch.optim.Adadelta(model.parameters(), lr=1.0)
criterion = nn.BCELoss()
kinds = torch.randn(3, 1, 8, 8)
for step in range(4):
    i, j = torch.randint(0, 3, (24,)), torch.randint(0, 3, (24,))
    same = (i == j).float()
    out = model(kinds[i] + 0.1 * torch.randn(24, 1, 8, 8), kinds[j]).squeeze()
    loss = criterion(out, same)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
