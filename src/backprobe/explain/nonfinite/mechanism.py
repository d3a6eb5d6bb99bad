"""Recognizes the arithmetic by which an operation made NaN or Inf, from its operands at the bad elements.

No derivative is computed here. Rules state where functions or their derivatives are not finite.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy

from backprobe.explain.nonfinite.states import Badness
from backprobe.explain.nonfinite.terms import Term, known_as
from backprobe.explain.nonfinite.text import Mechanism

Array = Any
Check = tuple[str, str, Callable[..., Array]]
"""A rule: the code of a mechanism, the limit that the sentence names, and a function that returns a mask of the
elements to which the rule applies.
"""

OVERFLOW = frozenset({"overflow", "overflow_of"})
BY_SCALE = frozenset({"overflow_by_scale", "scale_not_finite"})
POLE = frozenset({"pole", "pole_nan", "pole_zero", "pole_undefined", "pole_of_result"})

LOGARITHM: Sequence[Check] = (("at", "0", lambda x: x == 0), ("below", "0", lambda x: x < 0))
SUM: Sequence[Check] = (("inf_minus_inf", "", lambda a, b: numpy.isinf(a) & numpy.isinf(b)),)
ZERO: Check = ("by_zero", "", lambda x: x == 0)
ROOT: Check = ("negative_root", "", lambda x: x < 0)
OUTSIDE: Check = ("outside", "", lambda x: abs(x) > 1)
TURNING: Sequence[Check] = (("at", "Inf", numpy.isinf),)
CHECKS: Mapping[str, Sequence[Check]] = {
    "div": (
        ("zero_zero", "", lambda a, b: (a == 0) & (b == 0)),
        ("by_zero", "", lambda _, b: b == 0),
        ("inf_inf", "", lambda a, b: numpy.isinf(a) & numpy.isinf(b)),
    ),
    "mul": (("zero_inf", "", lambda a, b: ((a == 0) & numpy.isinf(b)) | ((b == 0) & numpy.isinf(a))),),
    **dict.fromkeys(("add", "sub"), SUM),
    "pow": (
        ("zero_to_negative", "", lambda a, b: (a == 0) & (b < 0)),
        ("fractional_power", "", lambda a, b: (a < 0) & (b % 1 != 0)),
    ),
    "remainder": (("remainder", "", lambda _, b: b == 0),),
    **dict.fromkeys(("log", "log2", "log10"), LOGARITHM),
    "log1p": (("at", "-1", lambda x: x == -1), ("below", "-1", lambda x: x < -1)),
    "sqrt": (ROOT,),
    "rsqrt": (ZERO, ROOT),
    "reciprocal": (ZERO,),
    **dict.fromkeys(("acos", "asin"), (OUTSIDE,)),
    **dict.fromkeys(("atanh", "erfinv"), (OUTSIDE, ("at", "±1", lambda x: abs(x) == 1))),
    "logit": (("at", "0", lambda x: x == 0), ("at", "1", lambda x: x == 1)),
    "entr": (("below", "0", lambda x: x < 0),),
    **dict.fromkeys(("lgamma", "gammaln", "digamma"), (("at", "0", lambda x: x == 0),)),
    "acosh": (("below", "1", lambda x: x < 1),),
    **dict.fromkeys(("sin", "cos", "tan"), TURNING),
}
"""For some operations, elementwise conditions under which they give NaN or Inf; the first that holds counts."""
BINARY = ("div", "mul", "add", "sub", "pow", "remainder")

LOGARITHMS = {"log": "0", "log2": "0", "log10": "0", "log1p": "-1"}

MEANS = frozenset({"var", "std", "var_mean", "std_mean", "mean"})
ADDING = frozenset({"sum", "mean", "cumsum", "add_n", "nansum"})
SUMMING = ADDING | {
    "matmul",
    "addmm",
    "baddbmm",
    "einsum",
    "linear",
    "conv1d",
    "conv2d",
    "prod",
    "cumprod",
    "tensordot",
    "inner",
    "outer",
    "var",
    "std",
    "norm",
}
LOGARITHMS_OF_MATRICES = frozenset({"logdet", "slogdet"})
OF_MATRICES = LOGARITHMS_OF_MATRICES | {"cholesky", "inv", "inverse", "matrix_inverse", "solve"}

ENDS = {"float16": 65504.0, "bfloat16": 3.389e38, "float32": 3.4028234e38}
LARGEST = {"float16": "65504", "bfloat16": "3.39e38", "float32": "3.40e38", "float64": "1.80e308"}


Wide = Callable[[float], Array | None]
"""Returns the result in a wider type, with the operands shifted by a given amount, or None if it is unknown."""
BESIDE = 1e-3


def forward(
    op: str,
    operands: Sequence[Array | None],
    result: Array,
    dtype: str,
    wide: Wide = lambda moved: None,
) -> Mechanism | None:
    """Return the mechanism of a bad result, or None if the numbers do not show it.

    ``operands`` are in the order of the operation's parameters, with None for an unknown one. ``wide`` computes the
    result in a wider type.

    >>> str(forward("div", [numpy.array([0.0]), numpy.array([0.0])], numpy.array([numpy.nan]), "float32"))
    '0/0'
    """
    op, bad = known_as(op), ~numpy.isfinite(result)
    given = [one for one in (_at(one, bad) for one in operands[: 1 + (op in BINARY)]) if one is not None]
    if len(given) == 1 + (op in BINARY):
        for code, limit, happened in CHECKS.get(op, ()):
            if happened(*given).any():
                return Mechanism(code, {"op": op, "limit": limit})
    known = [one for one in operands if one is not None]
    return _of_all(op, known, result) or _beyond(operands, result, dtype, wide) or _by_result(op, operands, result)


def _at(operand: Array | None, bad: Array) -> Array | None:
    # The numbers of an operand at the bad elements, or None if its shape does not fit the result's.
    try:
        return None if operand is None else numpy.broadcast_to(operand, bad.shape)[bad]
    except ValueError:
        return None


def _of_all(op: str, operands: Sequence[Array], result: Array) -> Mechanism | None:
    # The mechanism for operations over many elements: sums with Inf in them, losses without a label, operations on
    # matrices, and means of too few elements.
    made = result[~numpy.isfinite(result)]
    if any(numpy.isinf(one).any() for one in operands):
        if op in ("softmax", "log_softmax", "logsumexp", "cross_entropy") and numpy.isnan(made).any():
            return Mechanism("infinite_row")
        if op in SUMMING and numpy.isnan(made).any():
            return Mechanism("inf_minus_inf" if op in ADDING else "infinite_terms")
        return None
    if op in ("cross_entropy", "nll_loss") and len(operands) > 1 and _is_one_label(operands[1]):
        return Mechanism("all_ignored")
    if op in OF_MATRICES:
        return _of_matrix(op, operands, made)
    if op in MEANS and numpy.isnan(made).all():
        return Mechanism("too_few") if operands and operands[0].size <= result.size else None
    return None


def _beyond(operands: Sequence[Array | None], result: Array, dtype: str, wide: Wide) -> Mechanism | None:
    # Return the mechanism if finite numbers give Inf. It is an overflow if the dtype cannot hold the numbers, or if a
    # wider type could hold the result. If the result is Inf in the wider type too, it may be a pole, or an overflow as
    # in exp(1e14): it is an overflow if nearby numbers also give Inf.
    infinite = numpy.isinf(result) & _are_finite_there(operands, result.shape)
    if not infinite.any():
        return None
    given = [one for one in (_at(one, infinite) for one in operands) if one is not None and one.dtype.kind == "f"]
    if any((abs(one) > ENDS.get(dtype, numpy.inf)).any() for one in given):
        return overflow(dtype)
    exact, beside = wide(0.0), wide(BESIDE)
    if exact is None or beside is None or not exact.shape == beside.shape == result.shape:
        return None
    return overflow(dtype) if (infinite & (numpy.isfinite(exact) | numpy.isinf(beside))).any() else None


def _are_finite_there(operands: Sequence[Array | None], shape: tuple[int, ...]) -> Array:
    # Return a mask of the elements where all operands are finite; if the shapes do not broadcast, it is all True or all
    # False.
    finite = [numpy.isfinite(one) for one in operands if one is not None and one.dtype.kind in "fc"]
    with suppress(ValueError):
        return numpy.all([numpy.broadcast_to(one, shape) for one in finite], axis=0)
    return numpy.full(shape, all(one.all() for one in finite))


def _by_result(op: str, operands: Sequence[Array | None], result: Array) -> Mechanism | None:
    # Infer what an unknown operand must have been, if only one value gives this result. An infinite quotient of a
    # finite number needs a divisor near 0, and a logarithm is -Inf only at 0.
    bad = ~numpy.isfinite(result)
    if op in LOGARITHMS and operands[:1] == [None] and bool(numpy.isneginf(result[bad]).all()):
        return Mechanism("at", {"op": op, "limit": LOGARITHMS[op]})
    above = _at(operands[0], bad) if op == "div" and len(operands) == 2 and operands[1] is None else None
    if above is None or not numpy.isfinite(above).all():
        return None
    return Mechanism("by_nearly_zero") if numpy.isinf(result[bad]).all() else None


def _of_matrix(op: str, operands: Sequence[Array], made: Array) -> Mechanism | None:
    # The property of a matrix that prevents a log-determinant, an inverse or a Cholesky factor.
    matrix = operands[0].astype(float) if operands and operands[0].dtype.kind == "f" else numpy.empty(0)
    if matrix.ndim < 2 or len({*matrix.shape[-2:]}) > 1 or not matrix.size:
        return None
    if op == "logdet" and (numpy.linalg.det(matrix) < 0).any() and numpy.isnan(made).all():
        return Mechanism("determinant_below")
    if op in LOGARITHMS_OF_MATRICES:
        return Mechanism("determinant_zero") if numpy.isneginf(made).all() else None
    if op == "cholesky":
        lowest = numpy.linalg.eigvalsh((matrix + matrix.swapaxes(-1, -2)) / 2).min()
        return Mechanism("not_definite") if lowest <= 0 else None
    rank = numpy.linalg.matrix_rank(matrix)
    return Mechanism("singular") if (rank < matrix.shape[-1]).any() else None


def _is_one_label(labels: Array) -> bool:
    # Are all labels the same negative number, such as the index for labels to ignore?
    return bool(labels.size) and labels.dtype.kind == "i" and bool((labels == labels.min()).all() and labels.min() < 0)


def overflow(dtype: str) -> Mechanism:
    """The mechanism of a number beyond the range of its dtype."""
    limit = LARGEST.get(dtype)
    return Mechanism("overflow") if limit is None else Mechanism("overflow_of", {"dtype": dtype, "limit": limit})


def scaled(loss: float, scale: float, dtype: str) -> Mechanism:
    """Return the mechanism of a finite loss that overflowed when multiplied by a scale, or whose scale is not finite.

    >>> str(scaled(1e30, 65536.0, "float16"))
    'overflow: float16 ends at 65504: the loss 1e+30 times its scale 65536'
    """
    said = {"loss": f"{loss:.6g}", "scale": f"{scale:.6g}", "dtype": dtype, "limit": LARGEST.get(dtype, "")}
    word = "NaN" if math.isnan(scale) else "Inf"
    return Mechanism("overflow_by_scale" if math.isfinite(scale) else "scale_not_finite", {**said, "word": word})


# Classes for the backward pass.


@dataclass(frozen=True)
class Pole:
    """The points where the derivative of an operation is not finite, as a condition on its result and operands.

    ``code`` says whether the derivative is infinite or 0/0. ``shown`` is the position of the operand at the pole, or -1
    for the result.
    """

    places: Callable[..., Array]
    code: str = "infinite"
    shown: int = 0


UNDEFINED = "undefined"
ZERO_RESULT = Pole(lambda result, *_: result == 0, UNDEFINED, -1)
AT_ZERO, AT_ONE = Pole(lambda _, x, *__: x == 0), Pole(lambda _, x: abs(x) == 1)
POLES: Mapping[str, Pole] = {
    **dict.fromkeys(("sqrt", "rsqrt", "log", "log2", "log10", "reciprocal"), AT_ZERO),
    **dict.fromkeys(("acos", "asin", "atanh", "acosh"), AT_ONE),
    "log1p": Pole(lambda _, x: x == -1),
    "div": Pole(lambda _, a, b: b == 0, shown=1),
    "pow": Pole(lambda _, a, b: (a == 0) & (b < 1) & (b != 0)),
    "atan2": Pole(lambda _, a, b: (a == 0) & (b == 0), UNDEFINED),
    "angle": Pole(lambda _, x: x == 0, UNDEFINED),
    "xlogy": Pole(lambda _, a, b: b == 0, shown=1),
    "hypot": Pole(lambda _, a, b: (a == 0) & (b == 0), UNDEFINED),
    "norm": ZERO_RESULT,
    "std": ZERO_RESULT,
    "cdist": ZERO_RESULT,
    "logsumexp": Pole(lambda result, *_: result == -numpy.inf, UNDEFINED, -1),
}
"""For some operations, where their derivative is not finite. Only the recorded numbers are tested."""
SUMS = frozenset({"norm", "std", "cdist", "logsumexp"})
"""Operations whose result usually has another shape than their operand."""

EXPONENTIALS = frozenset({"exp", "exp2", "expm1", "cosh", "sinh"})
"""Operations whose derivative is NaN or Inf exactly where their result is."""

PRODUCTS = frozenset(
    {"mul", "pow", "square", "exp", "exp2", "expm1", "div", "sigmoid", "tanh", "sin", "cos", "sinh", "cosh"}
)
"""Operations whose backward is an elementwise product.

A product of Inf and a finite number is NaN only if the finite number is 0.
"""


@dataclass(frozen=True)
class Received:
    """The known data of one operation in backward: its incoming and outgoing gradient, and the numbers of forward.

    ``is_seen`` is True if the framework itself reported this operation. ``bad`` is a mask of NaN and Inf in the
    outgoing gradient. ``value`` is the operand that this gradient belongs to. ``came`` is the incoming gradient, if
    known. ``whole`` is the value of the line.
    """

    operation: str
    made: Badness
    given: Badness = Badness.FINITE
    is_seen: bool = False
    operands: Sequence[Array] = ()
    result: Array | None = None
    whole: Array | None = None
    bad: Array | None = None
    value: Array | None = None
    came: Array | None = None
    dtype: str = ""
    wrt: int | None = None  # the position of the operand ``value`` among the operands


def poles(one: Received) -> Array | None:
    """The numbers at which the derivative of an operation is not finite, or None if none are known."""
    found = _at_poles(one)
    return found if found is not None and found.size else None


def _at_poles(one: Received) -> Array | None:
    # Return the numbers at which the derivative is not finite: an empty array if there are certainly none, and None if
    # this is unknown.
    op = known_as(one.operation)
    pole, known = POLES.get(op), [numpy.asarray(operand) for operand in one.operands]
    if pole is None or not known or one.result is None or any(operand.dtype.kind == "O" for operand in known):
        return None
    try:
        places = pole.places(numpy.asarray(one.result), *known)
        shown = numpy.broadcast_to(one.result if pole.shown < 0 else known[pole.shown], places.shape)
    except (TypeError, ValueError):
        return None
    # use no mask if the final gradient is finite, because later operations of backward removed NaN and Inf
    bad = one.bad if one.bad is not None and one.bad.any() else None
    if bad is not None and bad.shape == places.shape and op not in SUMS:
        places = places & bad
    return shown[places]


def backward(one: Received) -> Mechanism | None:
    """The mechanism of a bad gradient, or None if the numbers do not show it."""
    op, found = known_as(one.operation), poles(one)
    if op == "pow" and one.wrt == 1 and _has_negative(numpy.asarray(one.operands[0]), one.bad):
        return Mechanism("exponent_of_negative")
    fields = {} if found is None else {"op": op, "places": _shown(found)}
    if found is not None and POLES[op].code == UNDEFINED:
        return Mechanism("pole_of_result" if POLES[op].shown < 0 and op != "norm" else "pole_undefined", fields)
    product = _of_product(one, op, fields) if one.made is Badness.NAN else None
    if product is not None:
        return product
    if fields:
        return Mechanism("pole" if one.made is Badness.INF else "pole_nan", fields)
    at_poles = _at_poles(one) if one.is_seen and one.given is Badness.FINITE and one.made is Badness.INF else None
    # an overflow near a pole, such as 1/x for a tiny x
    return overflow(one.dtype) if at_poles is not None and not at_poles.size else None


def _of_product(one: Received, op: str, fields: Mapping[str, str]) -> Mechanism | None:
    # Return the mechanism of a NaN that is a product with 0: of a zero gradient with Inf, or of an Inf gradient with a
    # zero derivative.
    came = _exactly_at(one.came, one.bad)
    if came is not None and came.size and (came == 0).all():
        return Mechanism("pole_zero" if fields else _by_zero(*_factors(one, op)), fields)
    # Inf times a finite number is NaN only if that number is 0
    if fields and one.is_seen and one.given is Badness.FINITE:
        return Mechanism("pole_zero", fields)
    is_inf = one.given is Badness.INF if came is None else bool(came.size) and bool(numpy.isinf(came).all())
    is_product = op in PRODUCTS and is_inf and not fields and _are_finite(one.operands)
    return Mechanism("infinite_gradient") if is_product else None


def _factors(one: Received, op: str) -> Sequence[Array | None]:
    # The values by which a gradient may have been multiplied; for a product, the other factor.
    if op == "mul" and one.wrt is not None and len(one.operands) == 2:
        return [None if one.bad is None else _at(numpy.asarray(one.operands[1 - one.wrt]), one.bad)]
    return [] if op in ("", "mul") else [_exactly_at(one.value, one.bad), _exactly_at(one.whole, one.bad)]


def _has_negative(base: Array, bad: Array | None) -> bool:
    # Is the base negative at all bad elements of the exponent's gradient? If the base was broadcast, one negative
    # number is enough, because the gradient is a sum.
    if bad is None or bad.shape == base.shape:
        return bool(base.size) and bool((base < 0 if bad is None else base[bad] < 0).all())
    return bad.size == 1 and bool((base < 0).any())


def _are_finite(operands: Sequence[Array]) -> bool:
    return bool(operands) and all(numpy.isfinite(operand).all() for operand in operands)


def _exactly_at(array: Array | None, bad: Array | None) -> Array | None:
    # Return the numbers of an array at the bad elements, or None if its shape differs. A single number counts for all
    # elements, because the backward of a sum passes one gradient to all inputs.
    if array is None or bad is None or array.size == 1:
        return None if array is None or bad is None else array.reshape(-1)
    return array[bad] if array.shape == bad.shape else None


def _by_zero(*read: Array | None) -> str:
    # Return the code of a NaN from a zero gradient: multiplied by NaN or Inf, if a value that the line reads contains
    # one.
    known = [values for values in read if values is not None and values.size]
    if any(numpy.isnan(values).all() for values in known):
        return "zero_gradient_nan"
    return "zero_gradient_inf" if any(numpy.isinf(values).any() for values in known) else "zero_gradient"


def _shown(values: Array) -> str:
    different = sorted({value + 0.0 for value in values.reshape(-1)[:1000].tolist()}, key=abs)
    return " and ".join(f"{value:g}" for value in different[:2])


@dataclass(frozen=True)
class Why:
    """The cause at an entry, the part of its expression where it happened, and whether the numbers prove it."""

    mechanism: Mechanism | None = None
    part: str = ""
    facts: tuple[str, ...] = ()
    is_certain: bool = False
    term: Term | None = None
    state: Badness = Badness.UNKNOWN  # the state of the part where its operands are finite; overall if that is unknown
    is_of_finite: bool = False  # True if the operands are finite where NaN or Inf begins

    @property
    def is_overflow(self) -> bool:
        return self.mechanism is not None and self.mechanism.code in OVERFLOW
