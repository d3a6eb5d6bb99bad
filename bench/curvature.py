"""The cost of Hessian-vector products and of eigenvalues: beside one step, and beside the whole Hessian.

python bench/curvature.py
"""

from __future__ import annotations

import warnings
from functools import partial
from time import process_time
from typing import Any

import numpy
import torch
from side_by_side import compare, show
from tables import main
from torch import nn

import backprobe as bp

PAIRS = 4
SIZES = {"small": (16, 16), "mid": (64, 64)}  # inputs, width
NAMES = ["*.weight", "*.bias"]


def measure(size: str) -> None:
    """Times of each way, and how far the eigenvalues are from those of the whole matrix."""
    inputs, width = SIZES[size]
    torch.manual_seed(0)
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    model = nn.Sequential(nn.Linear(inputs, width), nn.Tanh(), nn.Linear(width, 1)).double()
    x, y = torch.randn(256, inputs).double(), torch.randn(256, 1).double()

    def of(outputs: Any) -> Any:
        return (outputs - y).square().mean()

    def bare() -> None:
        model.zero_grad()
        of(model(x)).backward()

    own = {name: one.detach() for name, one in model.named_parameters()}
    sizes = [one.numel() for one in own.values()]

    def flat(vector: Any) -> Any:
        parts = zip(own, vector.split(sizes), strict=True)
        given = {name: part.reshape(own[name].shape) for name, part in parts}
        return of(torch.func.functional_call(model, given, (x,)))

    def whole() -> Any:
        start = torch.cat([one.flatten() for one in own.values()])
        return numpy.linalg.eigvalsh(torch.autograd.functional.hessian(flat, start).numpy())

    joint = partial(bp.curvature(model, NAMES, k=3, of=of, joint=True), x)
    result = joint()
    vector = torch.randn(width, inputs).double()
    ways = {
        "bp.hvp of one weight": lambda: bp.hvp(model, "0.weight", vector, of=of)(x),
        f"three eigenvalues, {result.products['joint']} products": joint,
    }
    if size == "small":
        error = abs(result["joint"] - whole()[::-1][:3]).max()
        print(f"{size}: the eigenvalues differ from those of the whole matrix by {error:.0e} at most")
        ways["the whole Hessian and all eigenvalues"] = whole
    median, ratios = compare(ways, bare, PAIRS, clock=process_time)
    print(f"{size}: {sum(sizes):,} parameters, one step {median * 1e3:.1f} ms")
    show(ratios, width=46)


if __name__ == "__main__":
    main(__file__, {size: partial(measure, size) for size in SIZES})
