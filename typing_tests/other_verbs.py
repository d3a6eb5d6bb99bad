"""The verbs that wait for a call: they keep the arguments of the function, and have their own result."""

from collections.abc import Callable
from typing import Any, assert_type

import torch
from torch import Tensor, nn

import backprobe as bp


def loss(x: Tensor, w: Tensor) -> Tensor:
    return (x * w).sum()


x = w = torch.ones(3)

assert_type(bp.check(loss, skip=[torch.relu])(x, w), bp.CheckReport)
assert_type(bp.check(nn.Linear(3, 1), order=2)(x), bp.CheckReport)
assert_type(bp.view("runs", port=8000, open=False), bp.Viewer)
assert_type(bp.view().url, str)
assert_type(bp.sweep(loss, "u", replace=torch.zeros_like)(x, w=w), bp.Sweep)
assert_type(bp.per_sample(loss, "w", batch="x", chunk=2)(x, w), bp.PerSample)
assert_type(bp.attribute(loss, (x, w), (w, x), "x", of="return", steps=2), bp.Attribution)
assert_type(bp.attribute(nn.Linear(3, 1), x, w, "**", edges=False)["x"], float)
assert_type(bp.attribute(loss, (x, w), {"x": x, "w": w}, ["x"]).exact(3), bp.Sweep)
assert_type(bp.attribute(loss, (x, w), (w, x), "x", executor=None).exact_edges(2), bp.Sweep)
assert_type(bp.noise_floor(loss, runs=2)(x, w), bp.NoiseFloor)
assert_type(bp.diff_live(loss, loss, backend=("torch", "jax"))(x, w), bp.DiffReport)
assert_type(bp.provoke(loss, bounds=(0.0, 1.0), seed=1)(x, w), bp.Provocations)
assert_type(bp.provoke(loss)(x, w).findings[0].broken == "result", bool)
assert_type(bp.replay("bad-step", nn.Linear(3, 1)), bp.ReplayReport)
assert_type(bp.replay("bad-step", nn.Linear(3, 1)).bitwise, bool)
assert_type(bp.guard(nn.Linear(3, 1), capture="bad-step"), bp.Guard)
assert_type(bp.jacobian(loss, "u")(x, w), Any)
assert_type(bp.hvp(loss, "u", [1.0])(x, w), Any)
assert_type(bp.curvature(loss, "w", k=2, which="smallest")(x, w), bp.Curvature)
waiting: Callable[[Tensor, Tensor], bp.CheckReport] = bp.check(loss)

bp.check(loss)(x)  # type: ignore[call-arg]
bp.check(loss).ok  # type: ignore[attr-defined]
bp.check(loss, backend="pytorch")  # type: ignore[arg-type]
bp.check(loss, order=3)  # type: ignore[arg-type]
bp.check(3)  # type: ignore[arg-type]
bp.sweep(loss, "u")  # type: ignore[call-arg]
bp.view("runs", port="8000")  # type: ignore[arg-type]
bp.sweep(loss, "u", replace=torch.zeros_like)(x, w, 1)  # type: ignore[call-arg]
with bp.memory(nn.Linear(3, 1)) as measured:
    measured.step()
assert_type(measured, bp.MemoryReport)
assert_type(measured.by("module"), dict[str, int])
bp.per_sample(loss, "w", chunk="all")  # type: ignore[arg-type]
bp.attribute(loss, (x, w), (w, x))  # type: ignore[call-arg]
bp.attribute(loss, (x, w), (w, x), "x", steps="many")  # type: ignore[arg-type]
bp.noise_floor(loss)(x, weight=w)  # type: ignore[call-arg]
bp.diff_live(loss, loss, backend=("torch", "jaxx"))  # type: ignore[arg-type]
bp.provoke(loss, tries="many")  # type: ignore[arg-type]
bp.provoke(loss)(x, "w")  # type: ignore[arg-type]
bp.replay(3, nn.Linear(3, 1))  # type: ignore[arg-type]
bp.guard(nn.Linear(3, 1), capture=3)  # type: ignore[arg-type]
bp.jacobian(loss, "u")(x)  # type: ignore[call-arg]
bp.curvature(loss, "w", which="top")  # type: ignore[arg-type]
bp.hvp(loss, "u", [1.0])("x", w)  # type: ignore[arg-type]

# those that take recordings and runs
rec, run = bp.probe(loss)(x, w), bp.open_run("folder")
assert_type(bp.diff(rec, "saved"), bp.DiffReport)
assert_type(bp.diff(run, "folder"), bp.RunDiffReport)
assert_type(bp.explain(rec).findings, tuple[bp.Finding, ...])
assert_type(bp.names(loss)[0], str)
assert_type(bp.load("folder", to="numpy").notes, tuple[str, ...])
bp.draw(rec, direction="down")
run.histogram("0.weight", "update")

bp.diff(rec, run)  # type: ignore[call-overload]
bp.draw(rec, direction="up")  # type: ignore[arg-type]
bp.load("folder", to="nunpy")  # type: ignore[arg-type]
bp.names(loss, backend="pytorch")  # type: ignore[arg-type]
run.histogram("0.weight", "gradient")  # type: ignore[arg-type]
