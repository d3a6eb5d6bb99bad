# from: https://github.com/davda54/sam
# truth: healthy: the weights go up by the first gradient and back again before the true step
# kind: healthy
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
x = torch.randn(60, 4)
y = x[:, :3].argmax(1)
for step in range(4):
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    with torch.no_grad():
        norm = torch.stack([p.grad.norm() for p in model.parameters()]).norm()
        ups = [0.05 * p.grad / (norm + 1e-12) for p in model.parameters()]
        for p, up in zip(model.parameters(), ups):
            p.add_(up)
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    with torch.no_grad():
        for p, up in zip(model.parameters(), ups):
            p.sub_(up)
    optimizer.step()
    optimizer.zero_grad()
    print(step, loss.item())
