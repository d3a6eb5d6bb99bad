# from: https://github.com/pytorch/pytorch/issues/43259
# exit: 3
# says: depth
# says: find_unused_parameters
# never: under torch\.no_grad
# Each batch has one task, and the head of the other waits for a gradient.
import os
import socket

import torch
import torch.distributed as dist
from torch import nn


class Tasks(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Linear(4, 8)
        self.normal, self.depth = nn.Linear(8, 3), nn.Linear(8, 1)

    def forward(self, x, task):
        h = self.trunk(x).relu()
        return self.normal(h) if task == "normal" else self.depth(h)


with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free.getsockname()[1]))
dist.init_process_group("gloo", rank=0, world_size=1)
try:
    model = nn.parallel.DistributedDataParallel(Tasks())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for task in ("normal", "depth", "normal"):
        optimizer.zero_grad()
        model(torch.randn(5, 4), task).square().mean().backward()
        optimizer.step()
finally:
    dist.destroy_process_group()
