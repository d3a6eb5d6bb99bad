# from: https://github.com/fangwei123456/spikingjelly/issues/280
# ask: explain
# exit: 1
# says: 'x' is not a leaf
# says: rec\['x'\]\.grad is a tensor
# says: next: make the leaf of all of it: x = torch\.rand\(3, 5\)\.double\(\)\.requires_grad_\(\)
import torch
from torch import nn


class Step(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, width):
        ctx.save_for_backward(x, width)
        return (x > 0).to(x)

    @staticmethod
    def backward(ctx, grad):
        x, width = ctx.saved_tensors
        return grad * (x.abs() < width), (grad * x).sum()


class Cell(nn.Module):
    def __init__(self):
        super().__init__()
        self.width = nn.Parameter(torch.tensor(1.0))

    def forward(self, x):
        state, fired = torch.zeros_like(x[0]), []
        for row in x:
            state = state + row
            fired.append(Step.apply(state - 1, self.width))
            state = state - fired[-1]
        return torch.stack(fired)


torch.manual_seed(0)
x = torch.rand(3, 5, requires_grad=True).double()
cell = Cell()
loss = cell(x).mean()
loss.backward()
print(x.grad)  # <- here
