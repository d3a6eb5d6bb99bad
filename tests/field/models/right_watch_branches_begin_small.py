# from: https://github.com/facebookresearch/deit/issues/122
# ask: watch
# exit: 0
# says: watched
# never: step \d+:
# Each branch is scaled by a parameter that begins at 1e-4, as CaiT has it: its gradients are small at first.
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.scale = nn.LayerNorm(width), nn.Parameter(torch.full((width,), 1e-4))
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        return x + self.scale * self.mlp(self.norm(x))


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(12, 16), Block(16), Block(16), Block(16), nn.Linear(16, 4))
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
for step in range(80):
    x = torch.randn(64, 12)
    loss = nn.functional.cross_entropy(model(x), x[:, :4].argmax(1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
