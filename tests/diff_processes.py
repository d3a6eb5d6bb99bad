"""One of two processes that train together, and save what they record: python diff_processes.py RANK FOLDER HALF."""

import sys

import torch
import torch.distributed as dist
from torch import nn

import backprobe as bp


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 6), nn.Linear(6, 1)

    def forward(self, x):
        hidden = self.first(x)
        turned = hidden.tanh()
        return self.second(turned)


def made():
    torch.manual_seed(0)
    return Net()


def batch():
    return torch.randn(8, 4, generator=torch.Generator().manual_seed(1))


def main(rank, folder, half):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2)
    model = nn.parallel.DistributedDataParallel(made())
    with bp.probe(model, ["**.weight", "**.bias"]) as rec:
        model(batch()[half::2]).square().mean().backward()
    rec.save(f"{folder}/rank{rank}")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
