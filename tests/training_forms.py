"""Training programs, run bare and under a probe in each form, and all that they leave compared bit by bit.

A program is a script in ``tests/trainings/torch/scripts``, written as people write it. A comment tells where probes
go: ``# each step: a; b`` at the loop over steps, with its models, and ``# objective`` at a call of a function that
gives the loss.
"""

from __future__ import annotations

import contextlib
import io
import random
import re
import sys
import types
from collections import deque
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch.utils.hooks import RemovableHandle

import backprobe as bp
from asked import same
from commands import invoked

HERE = Path(__file__).parent / "trainings" / "torch" / "scripts"
STEP = re.compile(r"^( *).*  # each step: (.*)$")
OBJECTIVE = re.compile(r"^( *\w+ = )([\w.]+)\((.*)\)  # objective$")


@dataclass
class Ran:
    """What a run of a program left, what it printed, and the recordings of its steps."""

    left: dict[str, object]
    printed: str
    recordings: list[bp.Recording] = field(default_factory=list)


def models(text: str) -> list[str]:
    """The models of a program, as it calls them."""
    return next(found[2] for line in text.splitlines() if (found := STEP.match(line))).split("; ")


def has_objective(text: str) -> bool:
    return any(OBJECTIVE.match(line) for line in text.splitlines())


def with_guard(text: str, model: str = "") -> str:
    """The program with a guard around each step: around a model, or without one."""
    return with_block(text, model).replace(f"probing({model}) as kept.recording:", f"guarding({model}):")


def with_block(text: str, model: str = "") -> str:
    """The program with a block around each step: around a model, or without one."""
    lines, depth = [], None
    for line in text.splitlines():
        indent = len(line) - len(line.lstrip())
        if depth is not None and line.strip() and indent <= depth:
            depth = None
        lines.append("    " + line if depth is not None and line.strip() else line)
        if found := STEP.match(line):
            depth = len(found[1])
            lines.append(f"{found[1]}    with probing({model}) as kept.recording:")
    return "\n".join(lines) + "\n"


def with_probe(text: str) -> str:
    """The program with its objective run under a probe as well, each time before the program itself runs it."""
    changed = [OBJECTIVE.sub(r"\1probed(\2, \3)", line) for line in text.splitlines()]
    return "\n".join(changed) + "\n"


class Kept:
    """Keeps each recording that a block gives: ``with bp.probe() as kept.recording:``."""

    def __init__(self) -> None:
        vars(self)["all"] = []

    def __setattr__(self, name: str, recording: bp.Recording) -> None:
        self.all.append(recording)


def run(text: str, path: Path, **options: object) -> Ran:
    """Run a program from a file of its own, with ``bp.probe`` in the names that the forms use."""
    path.write_text(text)
    kept, printed, module = Kept(), io.StringIO(), types.ModuleType("__main__")
    vars(module).update(
        __file__=str(path),
        kept=kept,
        probed=partial(probed, kept, options),
        probing=partial(bp.probe, **options),
        guarding=bp.guard,
    )
    before, sys.modules["__main__"] = sys.modules["__main__"], module
    try:
        seed()
        with contextlib.redirect_stdout(printed):
            exec(compile(text, str(path), "exec", dont_inherit=True), vars(module))
    finally:
        sys.modules["__main__"] = before
    return Ran(state(vars(module)), printed.getvalue(), kept.all)


def probed(kept, options, function, *args):
    """What a function returns, after a run of it under a probe that has to give the same."""
    at = randomness()
    rec = bp.probe(function, **options)(*args)
    under, _ = randomness(), at.restore()
    result = function(*args)
    assert same(rec.result, result)
    assert under.numbers == randomness().numbers
    kept.recording = rec
    return result


def explained(text: str, path: Path, *words: str) -> tuple[Ran, int]:
    """Run a program as ``backprobe explain`` does, with the status that it ends with."""
    path.write_text(text + "import training_forms\ntraining_forms.LEFT.append(training_forms.state(globals()))\n")
    LEFT.clear()
    seed()
    status, out, _ = invoked("explain", *words, str(path))
    return Ran(LEFT[0] if LEFT else {}, out), status


LEFT: list[dict[str, object]] = []


@dataclass
class Randomness:
    """The state of every generator that a program draws from."""

    torch: torch.Tensor
    numpy: object
    python: object

    @property
    def numbers(self) -> object:
        return self.torch.tolist(), str(self.numpy), self.python

    def restore(self) -> None:
        torch.set_rng_state(self.torch)
        np.random.set_state(self.numpy)
        random.setstate(self.python)


def randomness() -> Randomness:
    return Randomness(torch.get_rng_state(), np.random.get_state(), random.getstate())


def seed() -> None:
    torch.manual_seed(0)
    np.random.seed(0)
    random.seed(0)


def state(names: dict[str, object]) -> dict[str, object]:
    """All the numbers that a program's names lead to, and the state of its generators, as plain data."""
    own = {name: value for name, value in names.items() if name not in OURS and not name.startswith("__")}
    found = {f"{name}{path}": number for name, value in own.items() for path, number in _numbers(value, set())}
    return {**found, "randomness": str(randomness().numbers)}


OURS = ("kept", "probed", "probing", "training_forms")


def _numbers(value, seen):
    """The numbers in a value with their paths: tensors with their gradients as bytes."""
    if isinstance(value, (bool, int, float, complex, str, bytes)) or value is None:
        yield "", repr(value)
        return
    if id(value) in seen or isinstance(value, (type, types.ModuleType, types.FunctionType, RemovableHandle)):
        return
    seen.add(id(value))
    if isinstance(value, torch.Tensor):
        yield "", _bytes(value)
        if value.is_leaf and value.grad is not None:
            yield ".grad", _bytes(value.grad)
        yield ".requires_grad", value.requires_grad
    elif isinstance(value, np.ndarray):
        yield "", (str(value.dtype), value.shape, value.tobytes())
    else:
        for key, part in _parts(value):
            for path, number in _numbers(part, seen):
                yield f"{key}{path}", number


def _bytes(tensor):
    held = tensor.detach()
    if held.is_sparse:
        held = held.coalesce()
        return "sparse", _bytes(held.indices()), _bytes(held.values())
    return str(held.dtype), tuple(held.shape), held.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def _parts(value):
    if isinstance(value, dict):
        return [(f"[{number}]", part) for number, part in enumerate(value.values())]
    if isinstance(value, (list, tuple, deque)):
        return [(f"[{number}]", part) for number, part in enumerate(value)]
    return [(f".{name}", part) for name, part in getattr(value, "__dict__", {}).items()]
