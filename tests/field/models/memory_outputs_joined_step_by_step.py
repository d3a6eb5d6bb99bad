# from: https://theneuralbase.com/pytorch/learn/intermediate/memory-leak-detection/
# ask: memory
# exit: 1
# says: seen
# says: next: .*detach
# All outputs of an epoch in one tensor, for a metric: each step joins the graph to it.
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
seen = torch.empty(0, 3)
for step in range(20):
    x = torch.randn(32, 6)
    out = model(x)
    loss = nn.functional.cross_entropy(out, x[:, :3].argmax(1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    seen = torch.cat([seen, out])  # <- here
print(seen.argmax(1).bincount())
