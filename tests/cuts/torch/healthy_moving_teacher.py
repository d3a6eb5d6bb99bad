# from: https://pytorch.org/docs/stable/optim.html
# ask: explain
# kind: healthy
"""A teacher is the running mean of its student; only the student learns."""

import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

torch.manual_seed(0)
student = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 3))
teacher = AveragedModel(student, multi_avg_fn=get_ema_multi_avg_fn(0.9))
optimizer = torch.optim.AdamW(student.parameters(), lr=1e-2)
x = torch.randn(16, 4)
for _ in range(4):
    with torch.no_grad():
        wanted = teacher(x + 0.1 * torch.randn_like(x)).softmax(-1)
    loss = -(wanted * student(x).log_softmax(-1)).sum(-1).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    teacher.update_parameters(student)
