# from: own
# truth: healthy: outliers have a slope of plus or minus one, two of opposite sign may cancel in a bias now and then
# kind: healthy
import torch
from torch import nn

torch.manual_seed(0)
x = torch.linspace(-1, 1, 40)[:, None]
y = 3 * x + 1
y[::10] += 40
y[5::10] -= 40
line = nn.Linear(1, 1)
criterion = nn.HuberLoss(delta=1.0)
optimizer = torch.optim.SGD(line.parameters(), lr=0.5)
for epoch in range(6):
    loss = criterion(line(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(epoch, loss.item(), line.weight.item())
