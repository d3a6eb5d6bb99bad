# from: https://docs.pytorch.org/tutorials/beginner/fgsm_tutorial.html
# truth: healthy: sign() acts on a gradient that is already taken, and clamp() on inputs
# kind: healthy
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(9, 24), nn.ReLU(), nn.Linear(24, 3), nn.LogSoftmax(dim=1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
y = torch.randint(0, 3, (48,))
x = (0.3 * torch.rand(48, 9) + 0.5 * F.one_hot(y, 3).repeat(1, 3)).clamp(0, 1)
for step in range(4):
    data = x.clone().requires_grad_(True)
    F.nll_loss(model(data), y).backward()
    attacked = torch.clamp(data + 0.1 * data.grad.sign(), 0, 1).detach()
    optimizer.zero_grad()
    loss = F.nll_loss(model(attacked), y)
    loss.backward()
    optimizer.step()
    print(step, loss.item())
