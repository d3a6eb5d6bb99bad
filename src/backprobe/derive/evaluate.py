"""Evaluates formulas at recorded numbers, element by element, with a bound on the rounding error.

Each value carries its error bound: an operation is repeated with each operand shifted by its error, and adds one
rounding of its own (Higham, Accuracy and Stability of Numerical Algorithms, 2002, section 3.3, running error). A
formula such as 1 - tanh(x)² near saturation therefore may lose as many digits as the framework does, but a wrong
formula is still detected.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy

from backprobe.derive.tree import KINKED, PRIMITIVE, Apply, Number, Symbol, Tree, expanded, parts

ROUNDINGS = 8  # safety factor: a framework's functions may round this many times as often as ours


@dataclass(frozen=True)
class NumberRounding:
    """The precision of a dtype: the relative rounding error, and the smallest positive number."""

    eps: float
    tiny: float

    @classmethod
    def of(cls, dtypes: Iterable[str | None]) -> NumberRounding:
        """Return the lowest precision among some dtypes; double precision if none of them is known."""
        found = [DTYPES[dtype] for dtype in dtypes if dtype in DTYPES] or [DTYPES["float64"]]
        return max(found, key=lambda rounding: rounding.eps)


DTYPES = {
    "float64": NumberRounding(2.0**-52, 2.0**-1074),
    "float32": NumberRounding(2.0**-23, 2.0**-149),
    "bfloat16": NumberRounding(2.0**-7, 2.0**-133),
    "float16": NumberRounding(2.0**-10, 2.0**-24),
}


ERF = numpy.frompyfunc(math.erf, 1, 1)
JUMPING = ("step", "sign")
FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    **{name: getattr(numpy, name) for name in (*PRIMITIVE, "sign") if hasattr(numpy, name)},
    "asin": numpy.arcsin,
    "acos": numpy.arccos,
    "atan": numpy.arctan,
    "add": lambda *terms: sum(terms[1:], terms[0]),
    "mul": lambda *factors: math.prod(factors[1:], start=factors[0]),
    "neg": numpy.negative,
    "div": numpy.divide,
    "pow": numpy.power,
    "erf": lambda x: numpy.asarray(ERF(x), numpy.float64),
    "relu": lambda x: numpy.maximum(x, 0.0),
    "step": lambda x: numpy.heaviside(x, 0.5),
    "sigmoid": lambda x: numpy.exp(-numpy.logaddexp(0.0, -x)),
    "pi": lambda: numpy.float64(math.pi),
    "e": lambda: numpy.float64(math.e),
}


def evaluate(tree: Tree, values: Sequence[Any], rounding: NumberRounding) -> tuple[Any, Any]:
    """The formula's values at arrays of doubles, and a bound on their rounding error."""
    with numpy.errstate(all="ignore"):
        value, error = _evaluated(expanded(tree), values, rounding.eps)
        return value, ROUNDINGS * (numpy.nan_to_num(error, nan=0.0, posinf=0.0) + rounding.tiny)


def _evaluated(tree: Tree, values: Sequence[Any], eps: float) -> tuple[Any, Any]:
    if isinstance(tree, Number):
        value = numpy.float64(tree.value)
        return value, numpy.float64(0 if isinstance(tree.value, int) else abs(value) * eps)
    if isinstance(tree, Symbol):
        return values[tree.index], numpy.zeros_like(values[tree.index])
    assert isinstance(tree, Apply)
    function = FUNCTIONS[tree.op]
    args = [_evaluated(arg, values, eps) for arg in tree.args]
    exact = [value for value, _ in args]
    result = function(*exact)
    error = numpy.abs(result) * eps
    if tree.op in JUMPING:  # results of step functions are exact, whatever the rounding of their arguments
        return result, error
    for at, (value, moved) in enumerate(args):
        if numpy.any(moved):
            error = error + numpy.abs(function(*exact[:at], value + moved, *exact[at + 1 :]) - result)
    return result, error


def kinks(tree: Tree, values: Sequence[Any], rounding: NumberRounding) -> list[tuple[Apply, int]]:
    """The functions in a formula that are evaluated at a kink, each with the number of elements there."""
    found = []
    for part in parts(tree):
        if isinstance(part, Apply) and part.op in KINKED:
            first, second = (evaluate(arg, values, rounding)[0] for arg in (*part.args, Number(0))[:2])
            ties = int(numpy.count_nonzero(numpy.equal(first, second)))
            if ties:
                found.append((part, ties))
    return found


def agree(ours: Any, errors: Any, recorded: Any, rounding: NumberRounding) -> bool:
    """Do numbers equal the recorded ones to half the digits of their dtype, apart from the known rounding errors?"""
    with numpy.errstate(all="ignore"):
        same = (ours == recorded) | (numpy.isnan(ours) & numpy.isnan(recorded))
        allowed = math.sqrt(rounding.eps) * numpy.maximum(numpy.abs(ours), numpy.abs(recorded)) + errors
        near = numpy.isfinite(ours) & numpy.isfinite(recorded) & (numpy.abs(ours - recorded) <= allowed)
        return bool(numpy.all(same | near))
