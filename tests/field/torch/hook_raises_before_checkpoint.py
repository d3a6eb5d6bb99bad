# from: own
# ask: explain
# exit: 3
# says: a hook said no
# never: under torch\.no_grad
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class Inner(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(3, 3)

    def forward(self, x):
        return self.lin(x).tanh()


def refuse(grad):
    raise RuntimeError("a hook said no")  # <- here


first, inner, last = nn.Linear(3, 3), Inner(), nn.Linear(3, 1)
last.weight.register_hook(refuse)
optimizer = torch.optim.SGD([*first.parameters(), *inner.parameters(), *last.parameters()], lr=0.1)
loss = last(checkpoint(inner, first(torch.ones(2, 3)), use_reentrant=True)).mean()
loss.backward()
optimizer.step()
