# from: own
# ask: explain
# exit: 1
# says: 2 of 6 parameters got no gradient
# says: `self\.probe\(h\)` runs under torch\.no_grad
# never: reentrant|not seen again
# What a checkpoint computes again is under no_grad where the program itself has it so, and nowhere else.
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.probe = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, h):
        with torch.no_grad():
            scale = self.probe(h).sigmoid()  # <- here
        return self.fc(h) * scale


torch.manual_seed(0)
stem, block = nn.Linear(4, 4), Block()
optimizer = torch.optim.SGD([*stem.parameters(), *block.parameters()], lr=0.1)
out = checkpoint(block, stem(torch.randn(3, 4)), use_reentrant=True)
out.square().mean().backward()
optimizer.step()
