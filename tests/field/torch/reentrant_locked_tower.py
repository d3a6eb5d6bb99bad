# from: https://github.com/mlfoundations/open_clip/issues/573
# exit: 1
# says: reentrant
# never: torch\.no_grad
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.mlp = nn.LayerNorm(width), nn.Linear(width, width)

    def forward(self, x, scale):
        return x + scale * self.mlp(self.norm(x)).relu()


class Tower(nn.Module):
    def __init__(self, width=6):
        super().__init__()
        self.blocks = nn.ModuleList(Block(width) for _ in range(2))
        self.project = nn.Linear(width, 4, bias=False)

    def forward(self, patches):
        for block in self.blocks:
            patches = checkpoint(block, patches, 0.5, use_reentrant=True)  # <- here
        return F.normalize(self.project(patches), dim=-1)


torch.manual_seed(1)
image, text = Tower(), nn.Linear(5, 4)
optimizer = torch.optim.SGD([*image.parameters(), *text.parameters()], lr=0.1)
for step in range(2):
    logits = image(torch.randn(4, 6)) @ F.normalize(text(torch.randn(4, 5)), dim=-1).T
    loss = F.cross_entropy(logits, torch.arange(4))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("blocks without gradients:", sum(p.grad is None for p in image.blocks.parameters()))
