# from: https://github.com/huggingface/accelerate/issues/2017
# ask: explain
# exit: 3
# says: find_unused_parameters
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
        self.stem, self.block = nn.Linear(4, 4), nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))
        self.head, self.spare = nn.Linear(4, 1), nn.Linear(4, 1)

    def forward(self, x):
        return self.head(checkpoint(self.block, self.stem(x), use_reentrant=True))


with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free.getsockname()[1]))
dist.init_process_group("gloo", rank=0, world_size=1)
try:
    model = nn.parallel.DistributedDataParallel(Encoder(), find_unused_parameters=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        loss = model(torch.randn(2, 4)).square().mean()
        loss.backward()
        optimizer.step()
finally:
    dist.destroy_process_group()
