# from: own
# exit: 3
# says: takes .* out of the framework
# never: frozen
import torch
from torch import nn

net = nn.Linear(3, 1)


def loss_of(out, target):
    with torch.no_grad():
        out = out.numpy()  # <- here
    out = out - target.numpy()
    return torch.as_tensor((out**2).mean())


x, y = torch.randn(8, 3), torch.randn(8, 1)
loss = loss_of(net(x), y)
loss.backward()
