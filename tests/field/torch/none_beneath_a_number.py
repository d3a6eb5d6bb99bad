# from: own
# exit: 1
# says: `y\.item\(\)`.* - x\.grad is None
import torch

x = torch.tensor(2.0, requires_grad=True)
w = torch.tensor(3.0, requires_grad=True)
y = x.exp()
loss = w * y.item()  # <- here
loss.backward()
print(x.grad)
