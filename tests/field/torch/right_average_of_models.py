# from: own
# never: no optimizer
# The average is a copy whose parameters require a gradient; it is the target of each step, and never differentiated.
import copy

import torch
from torch import nn

torch.manual_seed(0)
student = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
teacher = copy.deepcopy(student)
optimizer = torch.optim.SGD(student.parameters(), lr=0.1)
for _ in range(4):
    x = torch.randn(8, 4)
    optimizer.zero_grad()
    (student(x + 0.1 * torch.randn_like(x)) - teacher(x).detach()).square().mean().backward()
    optimizer.step()
    with torch.no_grad():
        for slow, fast in zip(teacher.parameters(), student.parameters(), strict=True):
            slow.lerp_(fast, 0.01)
