# from: https://github.com/workofart/ml-by-hand/pull/85
# truth: the weights are bfloat16 and each update is far below half of their spacing, no weight ever changes
# kind: step changes nothing
# names: bfloat16
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)).to(torch.bfloat16)
optimizer = torch.optim.SGD(model.parameters(), lr=3e-6)
x, y = torch.randn(64, 8, dtype=torch.bfloat16), torch.randint(0, 4, (64,))
for epoch in range(4):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x).float(), y)
    loss.backward()
    optimizer.step()  # <- here
    print(epoch, loss.item())
