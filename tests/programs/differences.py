"""Central differences of a program's output by its arguments, in NumPy and so without any framework."""

from __future__ import annotations

import copy
import inspect
from types import SimpleNamespace
from typing import Any

import numpy as np

from backprobe.record.containers import at_path, exchanged, leaves
from programs.program import Program

STEP = 1e-6
UNMOVED = ("frozen", "not_float", "not_tensor")


def differences(program: Program, ops: SimpleNamespace) -> dict[str, np.ndarray]:
    """The difference quotient of the output by each floating argument, by the name of its entry."""
    function = program.make(ops)
    given = [_wide(value) for value in program.given]
    names = inspect.signature(function).bind(*given).arguments
    found = {}
    for parameter, value in names.items():
        for path, leaf in leaves(value):
            known = [name for name in (f"{parameter}{path}", f"{parameter}#0{path}") if name in program.wanted]
            if known and program.wanted[known[0]][1] not in UNMOVED:
                found[known[0]] = _quotients(program, function, given, leaf)
    return found


def _wide(value: Any) -> Any:
    if isinstance(value, float | list):
        return np.asarray(value, float)
    if isinstance(value, np.ndarray):
        return value.astype(float) if value.dtype.kind == "f" else value
    return exchanged(copy.deepcopy(value), lambda leaf: np.asarray(leaf) if isinstance(leaf, float) else leaf, [])


def _quotients(program: Program, function: Any, given: list[Any], leaf: np.ndarray) -> np.ndarray:
    quotients = np.zeros(leaf.shape)
    for at in np.ndindex(leaf.shape):
        up, down = (_output(program, function, _moved(given, leaf, at, step)) for step in (STEP, -STEP))
        quotients[at] = (up - down) / (2 * STEP)
    return quotients


def _moved(given: list[Any], leaf: np.ndarray, at: Any, step: float) -> list[Any]:
    """Copies of the arguments, this element of this one moved."""
    known: dict[int, Any] = {}
    copies = copy.deepcopy(given, known)
    known[id(leaf)][at] += step
    return copies


def _output(program: Program, function: Any, given: list[Any]) -> float:
    result, of = function(*given), program.options.get("of")
    if callable(of):
        result = of(result)
    elif of is not None:
        result = at_path(result, str(of))
    elif isinstance(result, tuple):
        result = result[0]
    return float(np.sum(result * np.asarray(program.options.get("cotangent", 1.0))))
