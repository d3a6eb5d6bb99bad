"""A program without types, as most are: what backprobe adds has them all the same."""
# mypy: allow-untyped-defs, allow-untyped-calls

from typing import assert_type

import torch

import backprobe as bp


def f(x, w):
    u = x * w
    return u.sum()


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 1)

    def forward(self, x):
        return self.linear(x)


rec = bp.probe(f, strategy="hooks")(3.0, w=2.0)
rec.result.anything()
rec["u"].grad.sum()
assert_type(rec["u"].status, bp.GradStatus)
assert_type(list(rec), list[str])
assert_type(bp.probe(Net())(torch.ones(3))["linear"].reason, str)
assert_type(bp.check(f)(1.0, 2.0), bp.CheckReport)

bp.probe(f)(3.0)  # type: ignore[call-arg]
bp.probe(f, strategy="edgse")  # type: ignore[call-overload]
bp.probe(Net(), strategy="edgse")  # type: ignore[call-overload]
rec["u"].gard  # type: ignore[attr-defined]
