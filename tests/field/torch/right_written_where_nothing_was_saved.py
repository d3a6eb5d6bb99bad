# from: own
# never: outside autograd
# never: use the new values
import torch

x = torch.tensor([1.0, 2.0], requires_grad=True)
w = torch.tensor([3.0, -1.0], requires_grad=True)
u = x * w
v = u + 1.0
u.data.zero_()
loss = v.square().sum()
loss.backward()
print(x.grad, "which is", (2 * (x * w + 1) * w).tolist())
