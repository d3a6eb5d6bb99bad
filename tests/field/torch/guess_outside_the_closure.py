# from: https://github.com/pytorch/pytorch/issues/111369
# exit: 3
# says: a second time
# says: inside|in the closure|computes? .*again|again
# never: next: (\S+ ){0,3}retain_graph=True
# The guess is made once, and L-BFGS calls the closure many times.
import torch
from torch import nn

torch.manual_seed(0)
x, y = torch.rand(50, 5), torch.rand(50, 1)
model = nn.Linear(5, 1)
optimizer = torch.optim.LBFGS(model.parameters())
guess = model(x)  # <- here


def closure():
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(guess, y)
    loss.backward()
    return loss


optimizer.step(closure)
