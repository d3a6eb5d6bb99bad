"""What opening and closing a block takes: in a loop of blocks in which nothing runs, and around a training step.

The least of many, in microseconds, for the outputs of a small GPT-2. Around a step the same instructions take longer,
since the step has taken their place in the caches.
"""

from time import perf_counter_ns

import torch
from allocator import pin
from forms import OUTPUTS, SELECTIONS
from models import MODELS, SIZES

import backprobe as bp

TIMES, WARMING = 600, 50


def opened_and_closed(program, is_step):
    """Nanoseconds of opening a block, and of closing it."""
    began = perf_counter_ns()
    block = bp.probe(program.model, SELECTIONS[OUTPUTS])
    block.__enter__()
    opened = perf_counter_ns()
    if is_step:
        program.loss().backward()
    ended = perf_counter_ns()
    block.__exit__(None, None, None)
    closed = perf_counter_ns()
    program.model.zero_grad()
    return opened - began, closed - ended


def main():
    torch.set_num_threads(1)
    program = MODELS["GPT-2"](SIZES["small"])
    print(f"{'':24}{'open':>8}{'close':>8}")
    for what, is_step in (("nothing runs", False), ("around a step", True)):
        took = [opened_and_closed(program, is_step) for _ in range(TIMES)][WARMING:]
        print(f"{what:24}" + "".join(f"{min(each) / 1e3:8.0f}" for each in zip(*took, strict=True)))


if __name__ == "__main__":
    pin()
    main()
