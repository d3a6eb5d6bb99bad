# from: own
# ask: explain
# exit: 1
# says: the result of `Scaled\.apply\(scale, gain\)` is not used
import torch


class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, value, gain):
        ctx.save_for_backward(value, gain)
        return value * gain

    @staticmethod
    def backward(ctx, grad):
        value, gain = ctx.saved_tensors
        return grad * gain, grad * value


def loss_of(x):
    scale = torch.ones(3)
    scaled = Scaled.apply(scale, gain)  # <- here
    return (x * scale).sum()


gain, x = torch.ones(3, requires_grad=True), torch.arange(3.0, requires_grad=True)
optimizer = torch.optim.SGD([x, gain], lr=0.1)
for _ in range(2):
    optimizer.zero_grad()
    loss_of(x).backward()
    optimizer.step()
