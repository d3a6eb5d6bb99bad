# from: own
# says: all 4 parameters got a gradient
# never: outside autograd
import torch
from torch import nn


class Relu(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x.clamp_(min=0)
        ctx.mark_dirty(x)
        ctx.save_for_backward(x)
        return x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * (x > 0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(3, 4), nn.Linear(4, 1)

    def forward(self, x):
        h = self.a(x)
        h = Relu.apply(h)
        return self.b(h)


torch.manual_seed(0)
net = Net()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
x = torch.randn(5, 3)
for _ in range(2):
    opt.zero_grad()
    loss = net(x).square().mean()
    loss.backward()
    opt.step()
