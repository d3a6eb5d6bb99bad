"""The cost of ``bp.explain(rec)`` of a function that was probed, beside a bare run of it: forward and ``backward()``.

The aim is 6 bare runs and 50 ms. In milliseconds of the processor, the least of several, since other work on the
machine makes all of them larger; ``facts`` is ``experiments=False``.
"""

import time

import torch
import torch.nn.functional as F
from side_by_side import least, once

import backprobe as bp

WIDTHS, BATCH, TIMES = (64, 1024), 64, 6
RUNS, FIXED = 6, 0.05  # the aim


def healthy(x, first, second, third):
    h = torch.tanh(x @ first)
    h = torch.tanh(h @ second)
    h = torch.tanh(h @ third)
    return F.mse_loss(h, torch.ones_like(h))


def detached(x, first, second, third):
    h = torch.tanh(x @ first)
    h = torch.tanh(h @ second)
    kept = h.detach()
    h = torch.tanh(kept @ third)
    return F.mse_loss(h, torch.ones_like(h))


def through_numpy(x, first, second, third):
    h = torch.tanh(x @ first)
    h = torch.tanh(h @ second)
    kept = torch.from_numpy(h.detach().numpy() * 2)
    h = torch.tanh(kept @ third)
    return F.mse_loss(h, torch.ones_like(h))


def times_zero(x, first, second, third):
    h = torch.tanh(x @ first)
    off = torch.tanh(h @ second)
    h = torch.tanh(h @ third + off * 0.0)
    return F.mse_loss(h, torch.ones_like(h))


def made(width):
    torch.manual_seed(0)
    matrices = [torch.randn(width, width) / width**0.5 for _ in range(3)]
    return [torch.randn(BATCH, width), *matrices]


def measured(function, given):
    """Seconds of a bare run, of a probe, and of ``explain`` without and with experiments."""
    leaves = [one.clone().requires_grad_() for one in given]
    probe = bp.probe(function)

    def explained(is_tried):
        rec = probe(*given)
        return once(lambda: bp.explain(rec, experiments=is_tried), time.process_time)

    bare = least(lambda: function(*leaves).backward())
    probed = least(lambda: probe(*given))
    return bare, probed, *(min(explained(is_tried) for _ in range(TIMES)) for is_tried in (False, True))


def main():
    torch.set_num_threads(1)
    print(f"{'':26}{'bare':>9}{'probe':>9}{'facts':>9}{'explain':>9}{'aim':>9}")
    for width in WIDTHS:
        for function in (healthy, detached, through_numpy, times_zero):
            bare, *others = measured(function, made(width))
            seconds = "".join(f"{1e3 * one:9.1f}" for one in (bare, *others, RUNS * bare + FIXED))
            print(f"{f'{function.__name__}, width {width}':26}{seconds}")


if __name__ == "__main__":
    main()
