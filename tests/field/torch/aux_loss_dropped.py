# from: https://github.com/NVIDIA-NeMo/Automodel/issues/1408
# ask: explain
# exit: 1
# says: the result of `?Riding\.apply\(mixed, balance\)`? is not used
# says: balance
import torch
from torch import nn


class Riding(torch.autograd.Function):
    @staticmethod
    def forward(ctx, hidden, extra):
        ctx.save_for_backward(extra)
        return hidden

    @staticmethod
    def backward(ctx, grad):
        (extra,) = ctx.saved_tensors
        return grad, torch.ones_like(extra)


class Router(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(3, 6) * 0.1)

    def forward(self, x):
        scores = (x @ self.weight.T).softmax(-1)
        best, index = scores.max(-1)
        balance = scores.mean(0).square().sum() * 0.01
        return best.detach(), index, balance


class Mixture(nn.Module):
    def __init__(self):
        super().__init__()
        self.router, self.experts = Router(), nn.ModuleList(nn.Linear(6, 6) for _ in range(3))

    def forward(self, x):
        best, index, balance = self.router(x)
        outputs = torch.stack([expert(x) for expert in self.experts], 1)
        mixed = outputs[torch.arange(len(x)), index] * best[:, None]
        Riding.apply(mixed, balance)  # <- here
        return mixed


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 6), Mixture(), nn.Linear(6, 1))
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(3):
    optimizer.zero_grad()
    loss = model(torch.randn(16, 4)).square().mean()
    loss.backward()
    optimizer.step()
