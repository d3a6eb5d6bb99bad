# from: https://github.com/locuslab/open-unlearning/issues/178
# ask: explain
# exit: 1
# says: so this checkpoint records nothing, parameters included
# says: 2 of 4 parameters got no gradient
# says: next: use_reentrant=False
# never: runs under torch\.no_grad
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

torch.manual_seed(0)
embed = nn.Linear(4, 4).requires_grad_(False)
adapter = nn.Linear(4, 4)
head = nn.Linear(4, 1)
h = checkpoint(adapter, embed(torch.randn(3, 4)), use_reentrant=True)  # <- here
loss = head(h).square().mean()
loss.backward()
print(adapter.weight.grad)
