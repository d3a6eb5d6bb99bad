# from: https://github.com/CuriousAI/mean-teacher
# truth: healthy: the teacher follows as a moving average and gets no gradient; its part begins with a weight of 0
# kind: healthy
import copy
import math

import torch
from torch import nn

torch.manual_seed(0)
student = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 2))
teacher = copy.deepcopy(student)
for p in teacher.parameters():
    p.requires_grad_(False)
optimizer = torch.optim.SGD(student.parameters(), lr=0.2, momentum=0.9, nesterov=True)
x = torch.randn(60, 4)
y = (x[:, 0] > 0).long()
y[10:] = -1
for step in range(5):
    out, target = student(x + 0.1 * torch.randn_like(x)), teacher(x + 0.1 * torch.randn_like(x))
    weight = 0.0 if step == 0 else 10 * math.exp(-5 * (1 - step / 5) ** 2)
    consistency = nn.functional.mse_loss(out.softmax(1), target.softmax(1))
    loss = nn.functional.cross_entropy(out, y, ignore_index=-1) + weight * consistency
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        alpha = min(1 - 1 / (step + 1), 0.99)
        for slow, fast in zip(teacher.parameters(), student.parameters()):
            slow.mul_(alpha).add_(fast, alpha=1 - alpha)
    print(step, loss.item())
