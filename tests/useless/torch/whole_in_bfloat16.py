# from: https://github.com/pytorch/ao/pull/1124
# truth: healthy: bfloat16 weights, but the steps are large enough for most of them to move
# kind: healthy
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1)).bfloat16()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
x = torch.randn(64, 8).bfloat16()
y = x[:, :2].sum(1, keepdim=True)
for epoch in range(6):
    loss = (model(x) - y).float().pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(epoch, loss.item())
