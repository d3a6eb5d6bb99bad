# from: own
# exit: 1
# says: 1\. 'h' is computed from 'x' under torch\.no_grad.* - x\.grad is None.* 2\.
import torch

x = torch.tensor([1.0, 2.0], requires_grad=True)
v = torch.tensor([1.0, 2.0], requires_grad=True)
w = torch.tensor([3.0, 4.0], requires_grad=True)
k = (v * 3).detach()
with torch.no_grad():
    h = x * 2  # <- here
loss = (h * w + k).sum()
loss.backward()
if x.grad is None:
    print("no gradient")
