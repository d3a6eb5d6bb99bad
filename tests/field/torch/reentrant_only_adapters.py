# from: https://github.com/huggingface/transformers/issues/23170
# exit: 3
# says: reentrant
# never: under `?torch\.no_grad
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class Adapted(nn.Module):
    def __init__(self, width=6):
        super().__init__()
        self.base = nn.Linear(width, width).requires_grad_(False)
        self.down, self.up = nn.Linear(width, 2, bias=False), nn.Linear(2, width, bias=False)

    def forward(self, x):
        return self.base(x) + self.up(self.down(x))


torch.manual_seed(0)
embed, head = nn.Embedding(9, 6).requires_grad_(False), nn.Linear(6, 9).requires_grad_(False)
block = Adapted()
optimizer = torch.optim.SGD([*block.down.parameters(), *block.up.parameters()], lr=0.1)
ids = torch.tensor([[1, 2, 3, 4]])
h = checkpoint(block, embed(ids), use_reentrant=True)  # <- here
loss = nn.functional.cross_entropy(head(h).flatten(0, 1), ids.flatten())
loss.backward()
optimizer.step()
