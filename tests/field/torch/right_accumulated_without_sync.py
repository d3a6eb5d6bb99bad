# from: https://github.com/pytorch/pytorch/issues/43259
# never: got no gradient|exactly 0|useless|changes next to nothing|changes no|changes none|is dropped|cuts|cancel|unused|not used
# Two batches a step on one process, the first of them in no_sync.
import contextlib
import os
import socket

import torch
import torch.distributed as dist
from torch import nn

with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free.getsockname()[1]))
dist.init_process_group("gloo", rank=0, world_size=1)
try:
    torch.manual_seed(0)
    model = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 1)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for batch in range(6):
        x = torch.randn(8, 4)
        with model.no_sync() if batch % 2 == 0 else contextlib.nullcontext():
            ((model(x) - x[:, :1]).square().mean() / 2).backward()
        if batch % 2:
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
finally:
    dist.destroy_process_group()
