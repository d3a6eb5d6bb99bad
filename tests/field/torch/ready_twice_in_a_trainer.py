# from: own
# exit: 3
# says: 'blocks\.\d\.0\.\w+' is inside a reentrant checkpoint, where find_unused_parameters=True
# says: use_reentrant=False
# never: under torch\.no_grad
import os
import socket

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.checkpoint import checkpoint


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.head = nn.Linear(4, 4), nn.Linear(4, 1)
        self.blocks = nn.ModuleList([nn.Sequential(nn.Linear(4, 4), nn.Tanh()) for _ in range(2)])

    def forward(self, x):
        h = self.stem(x)
        for block in self.blocks:
            h = checkpoint(block, h, use_reentrant=True)
        return self.head(h)


class Trainer:
    def __init__(self, model):
        self.model = nn.parallel.DistributedDataParallel(model, find_unused_parameters=True)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def step(self):
        self.optimizer.zero_grad()
        loss = self.model(torch.randn(2, 4)).square().mean()
        loss.backward()
        self.optimizer.step()


with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free.getsockname()[1]))
dist.init_process_group("gloo", rank=0, world_size=1)
try:
    trainer = Trainer(Encoder())
    for _ in range(2):
        trainer.step()
finally:
    dist.destroy_process_group()
