# from: own
# truth: the scale of the residual branches is a buffer of zeros, so it stays 0 and the branches are never trained
# kind: zero
# names: scale branch
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.branch = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.GELU())
        self.back = nn.Linear(2 * width, width)
        self.register_buffer("scale", torch.zeros(width))

    def forward(self, x):
        return x + self.scale * self.back(self.branch(x))  # <- here


torch.manual_seed(3)
model = nn.Sequential(nn.Linear(6, 12), Block(12), Block(12), nn.Linear(12, 3))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.0)
x, y = torch.randn(48, 6), torch.randint(0, 3, (48,))
for step in range(4):
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, round(loss.item(), 4))
