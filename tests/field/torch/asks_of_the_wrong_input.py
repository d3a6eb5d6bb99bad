# from: https://github.com/pytorch/pytorch/issues/58511
# exit: 1
# says: weight
# says: Fused(\.backward)?
# says: None
# The slope of the weight is only made where the data wants one, which it never does.
import torch
from torch import nn


class Fused(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias):
        ctx.save_for_backward(x, weight)
        return (x @ weight.T + bias).relu_()

    @staticmethod
    def backward(ctx, slope):  # <- here
        x, weight = ctx.saved_tensors
        slope_x = slope_weight = None
        if ctx.needs_input_grad[0]:
            slope_x = slope @ weight
            slope_weight = slope.T @ x
        return slope_x, slope_weight, slope.sum(0)


class Layer(nn.Module):
    def __init__(self, wide, out):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.randn(out, wide) * 0.3), nn.Parameter(torch.zeros(out))

    def forward(self, x):
        return Fused.apply(x, self.weight, self.bias)


torch.manual_seed(0)
model = nn.Sequential(Layer(4, 8), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    x = torch.randn(16, 4)
    loss = (model(x) - x[:, :1]).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
