# from: own
# ask: explain
# says: no operation is seen to have saved it for backward
# never: use the new values
# A sum needs none of its terms for its derivative, whatever is written to them later.
import torch

x = torch.ones(3, requires_grad=True)
u = x * 2
y = u + 1
u.data.mul_(5)
y.sum().backward()
assert x.grad.tolist() == [2.0, 2.0, 2.0]
