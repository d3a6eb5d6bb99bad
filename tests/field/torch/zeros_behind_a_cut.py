# from: own
# ask: explain
# exit: 1
# says: `w\.detach\(\)` cuts .* off from 'w'
# never: gives gradients that have no history
# Zeros are asked for, and w is used, but cut off: that line is the cause.
import torch

x = torch.ones(3, requires_grad=True)
w = torch.ones(3, requires_grad=True)
y = x * w.detach()  # <- here
gx, gw = torch.autograd.grad(y.sum(), (x, w), materialize_grads=True)
