# from: https://github.com/oclivegriffin/crosscode/issues/3
# exit: 1
# says: log_var
# never: all \d+ parameters got
import torch
from torch import nn


class Vae(nn.Module):
    def __init__(self):
        super().__init__()
        self.mean, self.log_var, self.decoder = nn.Linear(6, 2), nn.Linear(6, 2), nn.Linear(2, 6)

    def losses(self, x, beta=0.1):
        mean, log_var = self.mean(x), self.log_var(x)
        reconstruction = (self.decoder(mean) - x).square().sum(-1).mean()
        kl = 0.5 * (mean.square() + log_var.exp() - 1 - log_var).sum(-1).mean()
        total = reconstruction + beta * kl  # <- here
        self.logged = {"total": total.item(), "kl": kl.item()}
        return reconstruction


torch.manual_seed(0)
model = Vae()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for step in range(3):
    optimizer.zero_grad()
    model.losses(torch.randn(16, 6)).backward()
    optimizer.step()
print(model.log_var.weight.grad, model.logged)
