"""The arithmetic by which an operation made NaN or Inf, recognised from its operands at the places where it did.

No derivative is computed here: the rules say where functions, or their derivatives, have no finite value.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy

from backprobe.explain.nonfinite.states import State
from backprobe.explain.nonfinite.text import Mechanism

Array = Any
Check = tuple[str, str, Callable[..., Array]]
"""A code, the limit that its sentence names, and at which of the operands that is what happened."""

OVERFLOW = frozenset({"overflow", "overflow_of"})
POLE = frozenset({"pole", "pole_nan", "pole_zero"})

ALSO = {
    **dict.fromkeys(("realdiv", "true_divide", "divide", "truediv"), "div"), "addv2": "add", "biasadd": "add",
    "multiply": "mul", "subtract": "sub", **dict.fromkeys(("power", "powtensorself", "powtensortensor"), "pow"),
    "mod": "remainder", "fmod": "remainder", "batchmatmulv2": "matmul", "softmaxbackward": "softmax",
    "linalgvectornorm": "norm", "arccos": "acos", "arcsin": "asin", "arctanh": "atanh", "arccosh": "acosh",
}  # fmt: skip
"""What frameworks call operations, in small letters and without the mark of those in place, by their one name here."""

LOGARITHM: Sequence[Check] = (("at", "0", lambda x: x == 0), ("below", "0", lambda x: x < 0))
SUM: Sequence[Check] = (("inf_minus_inf", "", lambda a, b: numpy.isinf(a) & numpy.isinf(b)),)
ZERO: Check = ("by_zero", "", lambda x: x == 0)
ROOT: Check = ("negative_root", "", lambda x: x < 0)
OUTSIDE: Check = ("outside", "", lambda x: abs(x) > 1)
TURNING: Sequence[Check] = (("at", "Inf", numpy.isinf),)
CHECKS: Mapping[str, Sequence[Check]] = {
    "div": (
        ("zero_zero", "", lambda a, b: (a == 0) & (b == 0)), ("by_zero", "", lambda _, b: b == 0),
        ("inf_inf", "", lambda a, b: numpy.isinf(a) & numpy.isinf(b)),
    ),
    "mul": (("zero_inf", "", lambda a, b: ((a == 0) & numpy.isinf(b)) | ((b == 0) & numpy.isinf(a))),),
    "add": SUM, "sub": SUM,
    "pow": (
        ("zero_to_negative", "", lambda a, b: (a == 0) & (b < 0)),
        ("fractional_power", "", lambda a, b: (a < 0) & (b % 1 != 0)),
    ),
    "remainder": (("remainder", "", lambda _, b: b == 0),),
    "log": LOGARITHM, "log2": LOGARITHM, "log10": LOGARITHM,
    "log1p": (("at", "-1", lambda x: x == -1), ("below", "-1", lambda x: x < -1)),
    "sqrt": (ROOT,), "rsqrt": (ZERO, ROOT), "reciprocal": (ZERO,),
    "acos": (OUTSIDE,), "asin": (OUTSIDE,), "atanh": (OUTSIDE, ("at", "±1", lambda x: abs(x) == 1)),
    "acosh": (("below", "1", lambda x: x < 1),), "sin": TURNING, "cos": TURNING, "tan": TURNING,
}  # fmt: skip
"""What makes an operation NaN or Inf, number by number: the first that is so."""
BINARY = ("div", "mul", "add", "sub", "pow", "remainder")

MEANS = frozenset({"var", "std", "var_mean", "std_mean", "mean"})
ADDING = frozenset({"sum", "mean", "cumsum", "reduce_sum", "reduce_mean", "add_n", "nansum"})
SUMMING = ADDING | {
    "matmul", "mm", "bmm", "addmm", "baddbmm", "einsum", "dot", "linear", "conv1d", "conv2d", "prod", "cumprod",
    "tensordot", "inner", "outer", "var", "std", "norm",
}  # fmt: skip
GROWING = SUMMING | {
    "exp", "exp2", "expm1", "cosh", "sinh", "square", "pow", "mul", "add", "sub", "half", "to", "bfloat16", "float",
    "type", "astype", "cast", "tocopy", "logsumexp", "convolution", "expand", "neg",
}  # fmt: skip
"""Operations without a pole: a finite number that becomes Inf there has left the range of its dtype."""

LARGEST = {"float16": "65504", "bfloat16": "3.39e38", "float32": "3.40e38", "float64": "1.80e308"}


def forward(op: str, operands: Sequence[Array | None], result: Array, dtype: str) -> Mechanism | None:
    """What happened; None where the numbers do not show it.

    ``operands`` are in the order in which the operation takes them, None where one is not known.

    >>> str(forward("div", [numpy.array([0.0]), numpy.array([0.0])], numpy.array([numpy.nan]), "float32"))
    '0/0'
    """
    op, bad = _known_as(op), ~numpy.isfinite(result)
    given = [one for one in (_at(one, bad) for one in operands[: 1 + (op in BINARY)]) if one is not None]
    if len(given) == 1 + (op in BINARY):
        for code, limit, happened in CHECKS.get(op, ()):
            if happened(*given).any():
                return Mechanism(code, {"op": op, "limit": limit})
    return _of_all(op, [one for one in operands if one is not None], result, dtype)


def _known_as(op: str) -> str:
    op = op.lower().rstrip("_")
    return ALSO.get(op, op)


def _at(operand: Array | None, bad: Array) -> Array | None:
    """The numbers of an operand at the places that are bad; None where its shape is not that of the result."""
    try:
        return None if operand is None else numpy.broadcast_to(operand, bad.shape)[bad]
    except ValueError:
        return None


def _of_all(op: str, operands: Sequence[Array], result: Array, dtype: str) -> Mechanism | None:
    """For operations that sum over their operands, and those of which only sizes tell."""
    made = result[~numpy.isfinite(result)]
    if any(numpy.isinf(one).any() for one in operands):
        if op in ("softmax", "log_softmax", "logsumexp") and numpy.isnan(made).any():
            return Mechanism("infinite_row")
        if op in SUMMING and numpy.isnan(made).any():
            return Mechanism("inf_minus_inf" if op in ADDING else "infinite_terms")
        return None
    if op in MEANS and numpy.isnan(made).all():
        return Mechanism("too_few") if operands and operands[0].size <= result.size else None
    return _overflow(dtype) if op in GROWING and operands and numpy.isinf(made).all() else None


def _overflow(dtype: str) -> Mechanism:
    limit = LARGEST.get(dtype)
    return Mechanism("overflow") if limit is None else Mechanism("overflow_of", {"dtype": dtype, "limit": limit})


def scaled(loss: float, scale: float, dtype: str) -> Mechanism:
    """The same of a finite loss that was multiplied by a scale.

    >>> str(scaled(1e30, 65536.0, "float16"))
    'overflow: float16 ends at 65504: the loss 1e+30 times its scale 65536'
    """
    said = {"loss": f"{loss:.6g}", "scale": f"{scale:.6g}", "dtype": dtype, "limit": LARGEST.get(dtype, "")}
    word = "NaN" if math.isnan(scale) else "Inf"
    return Mechanism("overflow_by_scale" if math.isfinite(scale) else "scale_not_finite", {**said, "word": word})


# backward


POLES: Mapping[str, Callable[[Array], Array]] = {
    **dict.fromkeys(
        ("sqrt", "rsqrt", "log", "log2", "log10", "reciprocal", "div", "atan2", "norm", "pow"), lambda x: x == 0
    ),
    **dict.fromkeys(("acos", "asin", "atanh", "acosh"), lambda x: abs(x) == 1), "log1p": lambda x: x == -1,
}  # fmt: skip
"""Where the derivative of an operation is infinite."""

STEADY = GROWING - POLES.keys() - {"std"}
"""Operations whose derivative is finite wherever they are."""

PRODUCTS = frozenset({"mul", "pow", "square", "exp", "div"})
"""Operations whose backward multiplies number by number: of Inf and a finite number NaN comes only with zero."""


def backward(
    operation: str, made: State, grad: Array | None, value: Array | None, came: Array | None, dtype: str
) -> Mechanism | None:  # fmt: skip
    """What happened to a gradient; None where the numbers do not show it.

    ``value`` is what it is the gradient with respect to, and ``came`` the gradient that came to the operation; None
    where the numbers are not known.
    """
    op, bad = _known_as(operation), None if grad is None else ~numpy.isfinite(grad)
    values, given = (_exactly_at(one, bad) for one in (value, came))
    poles = [] if values is None or op not in POLES else values[POLES[op](values)]  # the others flow elsewhere, too
    fields = {"op": op, "places": _shown(poles)} if len(poles) else {}
    if made is State.NAN and given is not None and given.size:
        if (given == 0).all():
            return Mechanism("pole_zero" if fields else _by_zero(values), fields)
        if op in PRODUCTS and numpy.isinf(given).all():  # twice Inf is Inf, so it is not a pole
            return Mechanism("infinite_gradient")
    if fields:
        return Mechanism("pole" if made is State.INF else "pole_nan", fields)
    return _overflow(dtype) if made is State.INF and op in STEADY else None


def _exactly_at(array: Array | None, bad: Array | None) -> Array | None:
    """The numbers of an array at the places that are bad; None where its shape is another.

    A single number is at each of them: a sum hands its gradient on to all that it was computed from.
    """
    if array is None or bad is None or array.size == 1:
        return None if array is None or bad is None else array.reshape(-1)
    return array[bad] if array.shape == bad.shape else None


def _by_zero(values: Array | None) -> str:
    """What a zero gradient was multiplied by that gave NaN, where the value that was read there tells."""
    if values is not None and values.size and numpy.isnan(values).all():
        return "zero_gradient_nan"
    return "zero_gradient_inf" if values is not None and numpy.isinf(values).any() else "zero_gradient"


def _shown(values: Array) -> str:
    different = sorted({value + 0.0 for value in values.reshape(-1)[:1000].tolist()}, key=abs)
    return " and ".join(f"{value:g}" for value in different[:2])
