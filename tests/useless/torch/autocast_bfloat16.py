# from: https://docs.pytorch.org/docs/stable/notes/amp_examples.html
# truth: healthy: the layers compute in bfloat16, the weights and their small steps stay in float32
# kind: healthy
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(10, 32), nn.LayerNorm(32), nn.ReLU(), nn.Linear(32, 2))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
x = torch.randn(64, 10)
y = (x.sum(1) > 0).long()
for epoch in range(4):
    optimizer.zero_grad()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    print(epoch, loss.item())
