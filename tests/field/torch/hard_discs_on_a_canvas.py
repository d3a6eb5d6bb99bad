# from: own
# exit: 1
# says: centers|radii
# says: dist
# Discs are drawn by a comparison: where they are has no slope, only their colours are fitted.
import torch
from torch import nn


class Canvas(nn.Module):
    def __init__(self, discs):
        super().__init__()
        self.centers = nn.Parameter(torch.rand(discs, 2))
        self.radii = nn.Parameter(torch.full((discs,), 0.3))
        self.colors = nn.Parameter(torch.rand(discs, 3))

    def forward(self, grid):
        dist = (grid[:, None] - self.centers).norm(dim=-1)
        inside = (dist < self.radii).float()  # <- here
        alpha = inside / inside.sum(-1, keepdim=True).clamp(min=1)
        return alpha @ self.colors


torch.manual_seed(0)
side = torch.linspace(0, 1, 12)
grid = torch.cartesian_prod(side, side)
goal = torch.rand(144, 3)
canvas = Canvas(4)
optimizer = torch.optim.Adam(canvas.parameters(), lr=1e-2)
for step in range(4):
    loss = (canvas(grid) - goal).abs().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
