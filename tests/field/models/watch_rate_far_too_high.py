# from: https://stats.stackexchange.com/questions/420006/effect-of-learning-rate-and-standardization-on-nn-with-relu-layers
# ask: watch
# exit: 0
# says: step \d+: .*
# says: learning rate
# never: is too low
# One step of this rate throws the weights far away, and all units are dead or sure of one class from then on.
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=30.0)
centers = torch.randn(4, 10)
for step in range(60):
    label = torch.randint(0, 4, (64,))
    loss = nn.functional.cross_entropy(model(centers[label] + 0.3 * torch.randn(64, 10)), label)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
