# from: own
# exit: 1
# says: the program read None: x\.grad
# says: no gradient comes to x .* next: leave out detach\(\), .* - x\.grad is None
# never: 2\.
import torch

x = torch.tensor([1.0, 2.0], requires_grad=True)
w = torch.tensor([3.0, 4.0], requires_grad=True)
u = (x * 2).detach()  # <- here
loss = (u * w).sum()
loss.backward()
print(x.grad)
