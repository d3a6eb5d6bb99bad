"""The cost of ``bp.memory`` around a training loop, as ratios to the bare loop, and its peak beside that of a process.

    python bench/memory_of_steps.py

Most of the cost is that of the end of a block, which looks through the objects of Python's collector. The last line
is of one forward in a process of its own: what it keeps for backward, as the report says, beside how much more memory
the process holds with the graph than before it. Its allocator is told to give back at once what is freed.
"""

from __future__ import annotations

import os
import subprocess
import sys
from time import process_time

import torch
from side_by_side import compare, show
from torch import nn

import backprobe as bp

STEPS, PAIRS = 50, 4
LAYERS, WIDTH, BATCH = 8, 1024, 4096
GROWN = """
import resource, sys, torch, backprobe as bp
from torch import nn
torch.set_num_threads(1)
layers, width, batch = map(int, sys.argv[1:])
def held():
    return int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize()
model = nn.Sequential(*(nn.Sequential(nn.Linear(width, width), nn.Tanh()) for _ in range(layers)))
with torch.no_grad():
    model(torch.randn(batch, width))
with bp.memory(model) as report:
    before = held()
    out = model(torch.randn(batch, width))
    grown = held() - before
print(report.peak, grown)
"""


def costs() -> None:
    """The ratio of the loop in a block to the bare one."""
    torch.set_num_threads(1)
    model = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    x = torch.randn(128, 256)

    def bare() -> None:
        for _ in range(STEPS):
            model(x).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()

    def measured() -> None:
        with bp.memory(model):
            bare()

    median, ratios = compare({"bare, again": bare, "bp.memory(model)": measured}, bare, PAIRS, clock=process_time)
    print(f"{STEPS} bare steps {median * 1e3:.1f} ms")
    show(ratios)


def peaks() -> None:
    """What the report says beside what the process holds."""
    sizes = [str(number) for number in (LAYERS, WIDTH, BATCH)]
    told, grown = map(
        int,
        subprocess.check_output(
            [sys.executable, "-c", GROWN, *sizes], text=True, env=os.environ | {"MALLOC_MMAP_THRESHOLD_": str(2**20)}
        ).split(),
    )
    print(
        f"{LAYERS} layers of {WIDTH:,}, {BATCH:,} samples: {told / 1e6:.1f} MB kept, the process holds "
        f"{grown / 1e6:.1f} MB more"
    )


if __name__ == "__main__":
    costs()
    peaks()
