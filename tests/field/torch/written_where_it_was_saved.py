# from: own
# exit: 1
# says: outside autograd|behind autograd|out of autograd|overwr
import torch

x = torch.tensor([1.0, 2.0], requires_grad=True)
u = x.exp()
u.data.mul_(10.0)  # <- here
loss = u.sum()
loss.backward()
print(x.grad, "where exp(x) is", x.detach().exp())
