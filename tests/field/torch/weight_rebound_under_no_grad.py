# from: https://androidkt.com/print-computed-gradient-values-of-pytorch-model/
# exit: 3
# says: w = w - 0\.1 \* w\.grad
# says: no_grad
# never: retain_grad
# The first step gives the name to a tensor that requires no gradient, and the second backward has nothing to do.
import torch

torch.manual_seed(0)
x, y = torch.randn(16, 2), torch.randn(16)
w = torch.zeros(2, requires_grad=True)
for step in range(5):
    loss = (x @ w - y).pow(2).mean()
    loss.backward()
    with torch.no_grad():
        w = w - 0.1 * w.grad  # <- here
    print(step, loss.item())
