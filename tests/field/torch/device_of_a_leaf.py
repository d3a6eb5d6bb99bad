# from: https://github.com/fangwei123456/spikingjelly/issues/280
# exit: 1
# says: leaf
# never: detach\(\)` copies
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(8, 4), nn.Sigmoid()).double()
x = torch.rand([4, 8], requires_grad=True).double()  # <- here
net(x).sum().backward()
saliency = x.grad
print("saliency:", saliency)
