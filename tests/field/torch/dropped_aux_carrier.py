# from: https://github.com/NVIDIA-NeMo/Automodel/issues/1408
# exit: 1
# says: router
# never: all \d+ parameters got
import torch
from torch import nn


class WithPenalty(torch.autograd.Function):
    @staticmethod
    def forward(ctx, hidden, penalty):
        ctx.save_for_backward(penalty)
        return hidden.clone()

    @staticmethod
    def backward(ctx, grad):
        (penalty,) = ctx.saved_tensors
        return grad, torch.ones_like(penalty)


class Mixture(nn.Module):
    def __init__(self):
        super().__init__()
        self.router = nn.Linear(4, 2, bias=False)
        self.experts = nn.ModuleList(nn.Linear(4, 4) for _ in range(2))

    def forward(self, x):
        logits = self.router(x)
        best = logits.argmax(-1)
        out = torch.stack([expert(x) for expert in self.experts], 1)[torch.arange(len(x)), best]
        z_loss = logits.logsumexp(-1).square().mean() * 0.01
        WithPenalty.apply(out, z_loss)  # <- here
        return out


torch.manual_seed(0)
model = Mixture()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    loss = (model(torch.randn(32, 4)) - 1).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(model.router.weight.grad)
