# from: own
# never: \d of \d+ parameters got no gradient
# never: outside autograd
import copy

import torch
from torch import nn

torch.manual_seed(0)
student = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 3))
teacher = copy.deepcopy(student).requires_grad_(False)
optimizer = torch.optim.Adam(student.parameters(), lr=1e-2)
for step in range(3):
    x = torch.randn(8, 4)
    with torch.no_grad():
        target = teacher(x + 0.1 * torch.randn_like(x)).softmax(-1)
    loss = -(target * student(x).log_softmax(-1)).sum(-1).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    for slow, fast in zip(teacher.parameters(), student.parameters(), strict=True):
        slow.data.mul_(0.99).add_(fast.data, alpha=0.01)
print(loss.item())
