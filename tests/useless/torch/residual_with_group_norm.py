# from: https://github.com/facebookresearch/detectron2/blob/main/detectron2/layers/batch_norm.py
# truth: healthy: the last norm of each block begins with a weight of 0 and is trained, so its block wakes up later
# kind: healthy
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.conv1, self.gn1 = nn.Conv2d(c, c, 3, padding=1, bias=False), nn.GroupNorm(2, c)
        self.conv2, self.gn2 = nn.Conv2d(c, c, 3, padding=1, bias=False), nn.GroupNorm(2, c)
        nn.init.zeros_(self.gn2.weight)

    def forward(self, x):
        return torch.relu(x + self.gn2(self.conv2(torch.relu(self.gn1(self.conv1(x))))))


torch.manual_seed(0)
net = nn.Sequential(
    nn.Conv2d(1, 8, 3, padding=1), Block(8), Block(8), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 2)
)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
x, y = torch.rand(16, 1, 8, 8), torch.arange(16) % 2
x[y == 1, :, :4] += 0.5
for epoch in range(4):
    loss = nn.functional.cross_entropy(net(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(epoch, loss.item())
