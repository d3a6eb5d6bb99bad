# from: own
# never: copies the values|cuts .* off
# never: got no gradient
import torch

torch.manual_seed(0)
w = torch.zeros(3, requires_grad=True)
m = torch.zeros(3)


def step_of(w, m, g):
    m = 0.9 * m + g
    return w - 0.1 * m, m


for step in range(3):
    x = torch.randn(16, 3)
    loss = (x @ w - x.sum(1)).square().mean()
    (g,) = torch.autograd.grad(loss, w)
    w, m = step_of(w, m, g)
    w = w.detach().requires_grad_()
    print(step, loss.item())
