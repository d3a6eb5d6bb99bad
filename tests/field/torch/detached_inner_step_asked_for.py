# from: own
# exit: 1
# says: gave None for 'w'
# says: cuts .* off from 'fast
import torch

torch.manual_seed(0)
w = torch.zeros(3, requires_grad=True)
for step in range(3):
    x = torch.randn(16, 3)
    inner = (x @ w - x.sum(1)).square().mean()
    (g,) = torch.autograd.grad(inner, w)
    fast = w - 0.1 * g
    fast = fast.detach().requires_grad_()  # <- here
    outer = (x @ fast - x.sum(1)).square().mean()
    (slope,) = torch.autograd.grad(outer, w, allow_unused=True)
    print(slope)
