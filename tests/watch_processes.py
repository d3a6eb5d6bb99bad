"""One process of several that train together under watch: python watch_processes.py KIND RANK WORLD FOLDER."""

import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard

import backprobe as bp

STEPS, BATCH = 4, 8


def made():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))


def data():
    return torch.randn(STEPS, BATCH, 3, generator=torch.Generator().manual_seed(1))


def train(model, folder, batches):
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    with bp.watch(model, folder, optimizer=optimizer, updates=True):
        for x in batches:
            model(x).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()


def main(kind, rank, world, folder):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=world)
    model = made()
    if kind == "DDP":
        model = nn.parallel.DistributedDataParallel(model)
    else:
        for part in (model[0], model[2], model):
            fully_shard(part, mesh=dist.init_device_mesh("cpu", (world,)))
    train(model, f"{folder}/run", data()[:, rank::world])
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
