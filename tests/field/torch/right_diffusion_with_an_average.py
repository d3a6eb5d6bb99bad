# from: own
# never: got no gradient|useless|changes no|changes next to nothing|is dropped|cuts|cancel|not used|no optimizer
# Denoising with dropped conditions, accumulated batches, a schedule and an average of the weights.
import copy

import torch
from torch import nn


class Denoiser(nn.Module):
    def __init__(self, width=32, classes=3):
        super().__init__()
        self.label, self.when = nn.Embedding(classes + 1, width), nn.Linear(2, width)
        self.into, self.mid = nn.Linear(2, width), nn.Linear(width, width)
        self.norm, self.out = nn.LayerNorm(width), nn.Linear(width, 2)
        nn.init.zeros_(self.out.weight)

    def forward(self, x, t, label):
        angle = t[:, None] / 50
        h = self.into(x) + self.when(torch.cat([angle.sin(), angle.cos()], 1)) + self.label(label)
        return self.out(h + self.mid(nn.functional.silu(self.norm(h))))


torch.manual_seed(0)
model = Denoiser()
average = copy.deepcopy(model).eval().requires_grad_(False)
keep = torch.cumprod(1 - torch.linspace(1e-4, 0.02, 50), 0)
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 3))
for step in range(5):
    for part in range(2):
        label = torch.randint(0, 3, (32,))
        x = torch.randn(32, 2) * 0.1 + torch.eye(3)[label, :2]
        label = torch.where(torch.rand(32) < 0.1, 3, label)
        t, noise = torch.randint(0, 50, (32,)), torch.randn(32, 2)
        noisy = keep[t, None].sqrt() * x + (1 - keep[t, None]).sqrt() * noise
        with torch.autocast("cpu", torch.bfloat16):
            loss = (model(noisy, t.float(), label) - noise).square().mean() / 2
        loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    schedule.step()
    with torch.no_grad():
        for slow, fast in zip(average.parameters(), model.parameters()):
            slow.lerp_(fast, 0.1)
print(loss.item())
