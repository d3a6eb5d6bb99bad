"""Runs on an executor: what a task costs beside its run, and how much faster two workers are than one.

    python bench/executors.py
    python bench/executors.py 40        so many patches of a GPT-2, in place of 400

One thread each. The pools are asked in turn, and the least time of each counts: a machine that does other work makes
all of them slower, and two workers more than one. So processor times are printed too, of this process and of each
worker: what one worker takes in all, divided by what this process and the busier of two workers take, is the speed of
two workers that have a core each.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

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


def busy(executor) -> list[float]:
    """The processor time that this process and each worker have taken so far."""
    ticks = os.sysconf("SC_CLK_TCK")
    taken = [time.process_time()]
    for one in [] if executor is None else executor._processes:
        fields = Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()
        taken.append((int(fields[11]) + int(fields[12])) / ticks)
    return taken


def measured(work, executor=None) -> tuple[float, list[float]]:
    """The seconds of some work, and the processor time of this process and of each worker in it."""
    before, started = busy(executor), time.perf_counter()
    work()
    wall = time.perf_counter() - started
    return wall, [after - one for one, after in zip(before, busy(executor), strict=True)]


def load() -> str:
    """How much else the machine does: the processes that ran or waited, on average of the last minute."""
    return f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"


def main(patches: int) -> None:
    print(f"before: {load()}")
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
        tasks = [measured(lambda: nothing(one), one) for _ in range(TURNS)]
        wall, taken = min(one for one, _ in tasks), min(sum(every) for _, every in tasks)
        print(f"a task that does nothing: {wall / EMPTY * 1e3:.2f} ms, {taken / EMPTY * 1e3:.2f} ms of processor time")
        found = {name: [] for name in ("in this process", "one worker", "two workers")}
        for _ in range(TURNS):
            for name, executor in zip(found, (None, one, two), strict=True):
                found[name].append(measured(lambda executor=executor: swept(executor), executor))
        for name, times in found.items():
            taken = min((every for _, every in times), key=sum)
            each = " + ".join(f"{one:.2f}" for one in taken)
            print(f"{patches} patches, {name:16} {min(times)[0]:7.2f} s, {each} s of processor time")
        print(f"two workers: {min(found['one worker'])[0] / min(found['two workers'])[0]:.2f} x one worker")
        ratio = min(sum(every) for _, every in found["one worker"]) / min(
            own + max(others) for _, (own, *others) in found["two workers"]
        )
        print(f"two workers with a core each: {ratio:.2f} x, by processor time")
        print(f"after: {load()}, of which two workers make up to 2")
        assert swept().effects == swept(two).effects


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 400)
