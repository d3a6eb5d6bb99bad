# from: own
# never: got no gradient
# never: read None
import torch
from torch import nn

torch.manual_seed(0)
backbone = nn.Linear(4, 4).requires_grad_(False)
model = nn.Sequential(backbone, nn.Tanh(), nn.Linear(4, 1))
optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-2)
accumulate = 2
for step in range(6):
    loss = model(torch.randn(8, 4)).square().mean() / accumulate
    loss.backward()
    if (step + 1) % accumulate == 0:
        norm = torch.stack([p.grad.norm() for p in model.parameters() if p.grad is not None]).norm()
        optimizer.step()
        optimizer.zero_grad()
        print(step, float(norm))
