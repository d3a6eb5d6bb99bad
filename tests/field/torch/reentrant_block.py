# from: own
# ask: explain
# exit: 1
# says: 2 of 4 parameters got no gradient
# says: no input of .*requires a gradient
# says: use_reentrant=False
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


class Outer(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.last = Inner(), nn.Linear(3, 1)

    def forward(self, x):
        return self.last(checkpoint(self.inner, x, use_reentrant=True))  # <- here


model = Outer()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(2):
    model(torch.ones(2, 3)).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
