# from: https://github.com/huggingface/pytorch-image-models/blob/main/timm/layers/drop.py
# truth: healthy: a block dropped for the whole batch has a gradient of 0 in that step; the layer scale begins tiny
# kind: healthy
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, d, drop):
        super().__init__()
        self.norm, self.mlp, self.drop = nn.LayerNorm(d), nn.Linear(d, d), drop
        self.gamma = nn.Parameter(1e-5 * torch.ones(d))

    def forward(self, x):
        y = self.gamma * nn.functional.gelu(self.mlp(self.norm(x)))
        if self.training:
            kept = torch.bernoulli(torch.full((len(x), 1), 1 - self.drop))
            y = y * kept / (1 - self.drop)
        return x + y


torch.manual_seed(3)
model = nn.Sequential(nn.Linear(4, 12), Block(12, 0.1), Block(12, 0.6), nn.Linear(12, 2))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
for step in range(5):
    x = torch.randn(2, 4)
    loss = nn.functional.cross_entropy(model(x), (x[:, 0] > 0).long())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
