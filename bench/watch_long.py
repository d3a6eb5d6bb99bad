"""A long watched training: does its process grow?

    python bench/watch_long.py             100,000 steps of a tiny model
    python bench/watch_long.py 10000       so many

It prints, ten times on the way, what the process holds: memory, objects that Python's collector knows, threads and open
files. The newest steps of a run are in memory until about a thousand are put together, so the first line has fewer.
"""

from __future__ import annotations

import gc
import os
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import backprobe as bp


def main(steps: int) -> None:
    torch.set_num_threads(1)
    print(f"{'step':>8} {'MB':>7} {'objects':>9} {'threads':>8} {'files':>6}")

    def show(step: int) -> None:
        print(f"{step:8} {resident() / 1e6:7.1f} {objects():9} {threading.active_count():8} {files():6}")

    with tempfile.TemporaryDirectory() as folder:
        train(folder, [steps * part // 10 for part in range(1, 11)], show)


def train(folder: Any, stops: list[int], look: Callable[[int], None]) -> None:
    """Train a tiny model under a watch, and look at the process after so many steps."""
    torch.manual_seed(0)
    model = torch.nn.Linear(2, 1)
    optimizer, x = torch.optim.SGD(model.parameters(), lr=1e-6), torch.ones(4, 2)
    with bp.watch(model, folder, optimizer=optimizer) as run:
        for step in range(1, stops[-1] + 1):
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            run.log(loss=loss)
            if step in stops:
                run.flush()
                look(step)


def resident() -> int:
    """Bytes of this process in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def objects() -> int:
    gc.collect()
    return len(gc.get_objects())


def files() -> int:
    return len(os.listdir("/proc/self/fd"))


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else 100_000)
