"""The lines of the two tables in docs/types.md."""

from collections.abc import ItemsView, Mapping
from typing import Any, assert_type

import torch
from torch import Tensor, nn

import backprobe as bp


def loss(x: Tensor, w: Tensor) -> Tensor:
    u = x * w
    return u.square().sum()


class Net(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * 2


x, w, model = torch.ones(3), torch.ones(3), Net()
rec = bp.probe(loss)(x, w)

assert_type(bp.probe(loss)(x, w), bp.Recording[Tensor, Tensor])
assert_type(bp.probe(model)(x), bp.Recording[Tensor, Tensor])
assert_type(rec.result, Tensor)
assert_type(rec["u"], bp.Entry[Tensor])
assert_type(rec["u"].value, Tensor)
assert_type(rec["u"].grad, Tensor)
assert_type(rec["u"].grad_or_none, Tensor | None)
assert_type(rec["u"].grads, Mapping[str, Tensor])
assert_type(rec["u"].status, bp.GradStatus)
assert_type(rec["u"].partials, Mapping[str, Tensor])
assert_type(rec.grads(), dict[str, Tensor])
assert_type(rec.items(), ItemsView[str, bp.Entry[Tensor]])
assert_type(rec.select("u*"), dict[str, bp.Entry[Tensor]])
assert_type(rec.outputs, tuple[bp.Entry[Tensor], ...])
assert_type(rec.total(), bp.Recording[Tensor, Tensor])
assert_type(bp.check(loss)(x, w), bp.CheckReport)
assert_type(bp.sweep(loss, "u", replace=torch.zeros_like)(x, w), bp.Sweep)
assert_type(bp.noise_floor(loss)(x, w), bp.NoiseFloor)
assert_type(bp.provoke(loss)(x, w), bp.Provocations)
assert_type(bp.load("folder"), bp.Recording[Any, Any])
assert_type(bp.explain(rec).findings, tuple[bp.Finding, ...])

bp.probe(loss, strategy="edgse")  # type: ignore[call-overload]
bp.probe(loss, strateg="edges")  # type: ignore[call-overload]
bp.probe(loss)(x)  # type: ignore[call-arg]
bp.probe(loss)(x, 3)  # type: ignore[arg-type]
bp.probe(model)(x, w)  # type: ignore[call-arg]
rec["u"].gard  # type: ignore[attr-defined]
rec.result.itme()  # type: ignore[attr-defined]
bp.check(loss).findings  # type: ignore[attr-defined]
bp.Check  # type: ignore[attr-defined]
