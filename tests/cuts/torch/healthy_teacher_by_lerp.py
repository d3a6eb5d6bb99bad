# from: own
# ask: explain
# kind: healthy
"""The teacher's numbers are moved closer to the student's, all tensors at once."""

import copy

import torch
from torch import nn

torch.manual_seed(0)
student = nn.Linear(5, 2)
teacher = copy.deepcopy(student)
optimizer = torch.optim.SGD(student.parameters(), lr=0.1)
x, y = torch.randn(9, 5), torch.randn(9, 2)
for _ in range(3):
    target = teacher(x).detach()
    loss = (student(x) - y).square().mean() + 0.5 * (student(x) - target).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        torch._foreach_lerp_(list(teacher.parameters()), list(student.parameters()), 0.01)
