# from: own
# ask: explain
# exit: 1
# says: 'u' was modified outside autograd; gradients that need it use the new values
# An operation has saved this memory for backward, and finds other numbers there.
import torch

x = torch.ones(3, requires_grad=True)
u = x * 2
y = u * u
u.data.mul_(5)  # <- here
y.sum().backward()
