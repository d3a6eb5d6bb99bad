"""Runs on an executor: what a task costs beside its run, and how much faster two workers are than one.

    python bench/executors.py
    python bench/executors.py 40        so many patches of a GPT-2, in place of 400

One thread each. The pools are asked in turn, and the least time of each counts: a machine that does other work makes
all of them slower, and two workers more than one.
"""

from __future__ import annotations

import multiprocessing
import sys
import time
from concurrent.futures import ProcessPoolExecutor

import torch
from torch import nn

import backprobe as bp
from backprobe.executors.tasks import Tasks

TURNS, EMPTY = 3, 2000


class Nothing:
    """Work whose tasks do nothing."""

    def begin(self):
        return lambda number: number


class Block(nn.Module):
    """A block of GPT-2 in its shapes, without a mask."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.before, self.after = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn = nn.MultiheadAttention(width, width // 32, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        y = self.before(x)
        x = x + self.attn(y, y, y, need_weights=False)[0]
        return x + self.mlp(self.after(x))


class Mid(nn.Module):
    """Four blocks of width 256."""

    def __init__(self) -> None:
        super().__init__()
        self.h = nn.ModuleList(Block(256) for _ in range(4))

    def forward(self, x):
        for block in self.h:
            x = block(x)
        return x.square().mean()


def pool(workers: int) -> ProcessPoolExecutor:
    context = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(workers, mp_context=context, initializer=torch.set_num_threads, initargs=(1,))


def seconds(work) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def main(patches: int) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model, x = Mid(), torch.randn(8, patches // 4, 256)

    def swept(executor=None):
        return bp.sweep(model, [f"h.{at}" for at in range(4)], replace=torch.zeros_like, axis=1, executor=executor)(x)

    def nothing(executor):
        Tasks(executor, Nothing(), list(map(str, range(EMPTY))), "bench", {}).run(lambda name: None)

    with pool(1) as one, pool(2) as two:
        for executor in (one, two):
            nothing(executor)  # the workers are there
        least = min(seconds(lambda: nothing(one)) for _ in range(TURNS))
        print(f"a task that does nothing: {least / EMPTY * 1e3:.2f} ms, of {EMPTY:,}")
        found = {name: [] for name in ("in this process", "one worker", "two workers")}
        for _ in range(TURNS):
            for name, executor in zip(found, (None, one, two), strict=True):
                found[name].append(seconds(lambda executor=executor: swept(executor)))
        for name, times in found.items():
            print(f"{patches} patches, {name:16} {min(times):7.2f} s")
        print(f"two workers: {min(found['one worker']) / min(found['two workers']):.2f} x one worker")
        assert swept().effects == swept(two).effects


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 400)
