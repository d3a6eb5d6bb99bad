# from: https://github.com/facebookresearch/dino/issues/102
# ask: watch
# exit: 0
# says: watched
# never: step \d+:
# A teacher follows its student by an average, without gradients; its outputs are centred and sharpened.
import copy

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)


def network():
    return nn.Sequential(nn.Linear(12, 32), nn.GELU(), nn.Linear(32, 32), nn.GELU(), nn.Linear(32, 8))


student = network()
teacher = copy.deepcopy(student).requires_grad_(False)
optimizer = torch.optim.AdamW(student.parameters(), lr=2e-3)
center = torch.zeros(8)
groups = torch.randn(8, 12)
for step in range(120):
    picture = groups[torch.randint(0, 8, (64,))]
    one, two = picture + 0.2 * torch.randn(64, 12), picture + 0.2 * torch.randn(64, 12)
    with torch.no_grad():
        raw = teacher(two)
        wanted = ((raw - center) / 0.1).softmax(-1)
        center = 0.9 * center + 0.1 * raw.mean(0)
    loss = -(wanted * (student(one) / 0.2).log_softmax(-1)).sum(-1).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        for ours, theirs in zip(teacher.parameters(), student.parameters()):
            ours.lerp_(theirs, 0.01)
