# from: own
# ask: explain
# says: nothing that was recorded leads from 'w' to 'grad\(\)'
# exit: 1
# says: no recorded value was seen to be computed from 'w'
# never: disconnected|cuts .* off|gives gradients
# The program asks for zeros in the place of None: what is differentiated never depended on w.
import torch

x = torch.ones(3, requires_grad=True)
w = torch.ones(3, requires_grad=True)
gx, gw = torch.autograd.grad(x.sum(), (x, w), materialize_grads=True)
