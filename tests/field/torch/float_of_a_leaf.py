# from: https://github.com/pytorch/pytorch/issues/10065
# exit: 1
# says: leaf
import torch

w = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
w1 = w.type(torch.float64)  # <- here
scale = torch.tensor(2.0, requires_grad=True)
o = (scale * w1).mean()
o.backward()
print(w1.grad, scale.grad)
