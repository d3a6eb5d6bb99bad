"""The cost of per-sample gradients: beside one backward of the batch, a backward for each sample, and Opacus.

    python bench/per_sample.py

Norms are of all parameters. Opacus is measured where it is installed; it sees the layers that it has rules for.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from functools import partial
from time import process_time
from typing import Any

import torch
from side_by_side import compare, show
from tables import main
from torch import nn
from torch.nn import functional as F

import backprobe as bp

SAMPLES, PAIRS = 32, 4


class Training(nn.Module):
    """A model with its loss."""

    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.body = body

    def forward(self, x: Any, y: Any) -> Any:
        return F.cross_entropy(self.body(x), y)


def perceptron() -> tuple[nn.Module, Any]:
    return nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10)), torch.randn(SAMPLES, 256)


def convolutional() -> tuple[nn.Module, Any]:
    body = nn.Sequential(
        nn.Conv2d(3, 32, 3),
        nn.GroupNorm(4, 32),
        nn.ReLU(),
        nn.Conv2d(32, 32, 3, stride=2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(32 * 49, 10),
    )
    return body, torch.randn(SAMPLES, 3, 17, 17)


def ways(body: nn.Module, x: Any, y: Any) -> dict[str, Callable[[], object]]:
    """What is compared, by its name."""
    model = Training(body)

    def one_by_one() -> None:
        for at in range(SAMPLES):
            model.zero_grad()
            model(x[at : at + 1], y[at : at + 1]).backward()

    samples = bp.per_sample(model, "**weight")(x, y)
    found: dict[str, Callable[[], object]] = {
        "a backward for each sample": one_by_one,
        "bp.per_sample(model, ...)(x, y): norms and shares": lambda: bp.per_sample(model, "**")(x, y),
        "samples.grads(), once it is called": samples.grads,
    }
    try:
        from opacus import GradSampleModule
    except ImportError:
        return found
    wrapped = GradSampleModule(copy.deepcopy(body))

    def by_opacus() -> None:
        wrapped.zero_grad()
        F.cross_entropy(wrapped(x), y).backward()

    return found | {"Opacus, GradSampleModule": by_opacus}


def measure(make: Callable[[], tuple[nn.Module, Any]]) -> None:
    """The ratio of each way to one backward of the batch."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", "Full backward hook is firing")  # of Opacus, in each backward
    body, x = make()
    y = torch.arange(SAMPLES) % 10
    model = Training(body)

    def bare() -> None:
        model.zero_grad()
        model(x, y).backward()

    median, ratios = compare(ways(body, x, y), bare, PAIRS, clock=process_time)
    print(f"{make.__name__}: {SAMPLES} samples, one backward of the batch {median * 1e3:.1f} ms")
    show(ratios, width=52)


if __name__ == "__main__":
    main(__file__, {one.__name__: partial(measure, one) for one in (perceptron, convolutional)})
