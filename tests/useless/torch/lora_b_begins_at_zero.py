# from: https://github.com/microsoft/LoRA/blob/main/loralib/layers.py
# truth: healthy: B begins at zero, so A has a gradient of 0 in the first step only
# kind: healthy
import math

import torch
from torch import nn


class LoraLinear(nn.Module):
    def __init__(self, base, rank=2, alpha=4):
        super().__init__()
        self.base = base.requires_grad_(False)
        self.lora_a = nn.Parameter(torch.empty(rank, base.in_features))
        self.lora_b = nn.Parameter(torch.zeros(base.out_features, rank))
        self.scaling = alpha / rank
        nn.init.kaiming_uniform_(self.lora_a, a=math.sqrt(5))

    def forward(self, x):
        return self.base(x) + self.scaling * (x @ self.lora_a.T @ self.lora_b.T)


torch.manual_seed(0)
model = nn.Sequential(LoraLinear(nn.Linear(6, 12)), nn.ReLU(), LoraLinear(nn.Linear(12, 3)))
trained = [p for p in model.parameters() if p.requires_grad]
optimizer = torch.optim.AdamW(trained, lr=0.02)
x, y = torch.randn(32, 6), torch.randint(0, 3, (32,))
for step in range(5):
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
