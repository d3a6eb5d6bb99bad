"""The arithmetic by which an operation made NaN or Inf, recognised from its operands at the places where it did.

No derivative is computed here: the rules say where functions, or their derivatives, have no finite value.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy

Array = Any
Rule = Callable[..., str]

ZERO_INF, INF_INF, ZERO_ZERO = "0 · Inf", "Inf − Inf", "0/0"
OVERFLOW, INFINITE = "overflow", "is infinite"


def forward(op: str, operands: Sequence[Array | None], result: Array, dtype: str) -> str:
    """The name of what happened, empty where the numbers do not show it.

    ``operands`` are in the order in which the operation takes them, None where one is not known.

    >>> forward("div", [numpy.array([1.0, 0.0]), numpy.array([1.0, 0.0])], numpy.array([1.0, numpy.nan]), "float32")
    '0/0'
    """
    op = ALSO.get(op, op.lower())
    bad = ~numpy.isfinite(result)
    there = [None if one is None else _at(one, bad) for one in operands]
    rule, arity = RULES.get(op), ARITY.get(op, 1)
    given = [one for one in there[:arity] if one is not None]
    told = rule(*given) if rule is not None and len(given) == arity else ""
    if told:
        return str(told)
    return _sweeping(op, operands, result, dtype)


def _at(operand: Array, bad: Array) -> Array | None:
    """The numbers of an operand at the places that are bad; None where its shape is not that of the result."""
    try:
        return numpy.broadcast_to(operand, bad.shape)[bad]
    except ValueError:
        return None


def _sweeping(op: str, operands: Sequence[Array | None], result: Array, dtype: str) -> str:
    """For operations that sum over their operands, and those of which only sizes tell."""
    made = result[~numpy.isfinite(result)]
    known = [one for one in operands if one is not None]
    infinite = any(numpy.isinf(one).any() for one in known)
    if op in ("softmax", "log_softmax", "logsumexp") and infinite and numpy.isnan(made).any():
        return f"{INF_INF}: a row that is Inf or all −Inf"
    if op in SUMMING and infinite and numpy.isnan(made).any():
        signs = {bool(sign) for one in known for sign in (one[numpy.isinf(one)] > 0).reshape(-1)}
        return INF_INF if op in ADDING and len(signs) == 2 else f"{ZERO_INF} or {INF_INF}"
    if op in ("var", "std", "var_mean", "std_mean", "mean") and numpy.isnan(made).all() and not infinite:
        is_too_few = bool(known) and known[0].size <= result.size
        return f"{ZERO_ZERO}: of too few numbers" if is_too_few else ""
    grows = op in SUMMING or op in GROWING
    if grows and known and not infinite and numpy.isinf(made).all():
        return f"{OVERFLOW}: {dtype} ends at {LARGEST[dtype]}" if dtype in LARGEST else OVERFLOW
    return ""


def scaled(loss: float, scale: float | None, dtype: str) -> str:
    """The same of a finite loss that was multiplied by a scale.

    >>> scaled(1e30, 65536.0, "float16")
    'overflow: float16 ends at 65504: the loss 1e+30 times its scale 65536'
    """
    if scale is None:
        return ""
    if not math.isfinite(scale):
        return f"the loss {loss:.6g} is multiplied by a scale that is itself {'NaN' if math.isnan(scale) else 'Inf'}"
    limit = f": {dtype} ends at {LARGEST[dtype]}" if dtype in LARGEST else ""
    return f"{OVERFLOW}{limit}: the loss {loss:.6g} times its scale {scale:.6g}"


def _division(a: Array, b: Array) -> str:
    if ((a == 0) & (b == 0)).any():
        return ZERO_ZERO
    if (b == 0).any():
        return "division by zero"
    return "Inf/Inf" if (numpy.isinf(a) & numpy.isinf(b)).any() else ""


def _product(a: Array, b: Array) -> str:
    return ZERO_INF if (((a == 0) & numpy.isinf(b)) | ((b == 0) & numpy.isinf(a))).any() else ""


def _sum(a: Array, b: Array) -> str:
    return INF_INF if (numpy.isinf(a) & numpy.isinf(b)).any() else ""


def _power(a: Array, b: Array) -> str:
    if ((a == 0) & (b < 0)).any():
        return "0 to a negative power"
    return "a negative number to a fractional power" if ((a < 0) & (b % 1 != 0)).any() else ""


def _logarithm(name: str, zero: float = 0.0) -> Rule:
    def rule(x: Array) -> str:
        if (x == zero).any():
            return f"{name}({zero:g})"
        return f"{name} of a number below {zero:g}" if (x < zero).any() else ""

    return rule


def _root(x: Array) -> str:
    return "the square root of a negative number" if (x < 0).any() else ""


def _reciprocal(x: Array) -> str:
    return "division by zero" if (x == 0).any() else ""


def _rsqrt(x: Array) -> str:
    return "division by zero: 1/sqrt(0)" if (x == 0).any() else _root(x)


def _outside(name: str) -> Rule:
    def rule(x: Array) -> str:
        return f"{name} of a number outside −1…1" if (abs(x) > 1).any() else f"{name}(±1)" if name == "atanh" else ""

    return rule


def _acosh(x: Array) -> str:
    return "acosh of a number below 1" if (x < 1).any() else ""


def _turning(name: str) -> Rule:
    def rule(x: Array) -> str:
        return f"{name}(Inf)" if numpy.isinf(x).any() else ""

    return rule


def _remainder(a: Array, b: Array) -> str:
    return "the remainder of a division by zero" if (b == 0).any() else ""


ALSO = {"RealDiv": "div", "AddV2": "add", "BiasAdd": "add", "BatchMatMulV2": "matmul", "SoftmaxBackward": "softmax"}
"""What TensorFlow's graphs call operations, where it is not the same in small letters."""

RULES: Mapping[str, Rule] = {
    **dict.fromkeys(("div", "true_divide", "divide", "div_", "truediv"), _division),
    **dict.fromkeys(("mul", "multiply", "mul_"), _product),
    **dict.fromkeys(("add", "add_"), _sum), **dict.fromkeys(("sub", "subtract", "sub_"), _sum),
    **dict.fromkeys(("pow", "power", "pow_"), _power), **dict.fromkeys(("mod", "remainder", "fmod"), _remainder),
    **{name: _logarithm(name) for name in ("log", "log2", "log10")}, "log_": _logarithm("log"),
    "log1p": _logarithm("log1p", -1.0), "sqrt": _root, "sqrt_": _root, "rsqrt": _rsqrt, "reciprocal": _reciprocal,
    **{name: _outside(name) for name in ("acos", "asin", "arccos", "arcsin", "atanh", "arctanh")},
    **{name: _turning(name) for name in ("sin", "cos", "tan")}, "acosh": _acosh, "arccosh": _acosh,
}  # fmt: skip
ARITY = dict.fromkeys(
    ("div", "true_divide", "divide", "div_", "truediv", "mul", "multiply", "mul_", "add", "add_", "sub", "subtract",
     "sub_", "pow", "power", "pow_", "mod", "remainder", "fmod"), 2
)  # fmt: skip
ADDING = frozenset({"sum", "mean", "cumsum", "reduce_sum", "reduce_mean", "add_n", "nansum"})
SUMMING = ADDING | {
    "matmul", "mm", "bmm", "addmm", "baddbmm", "einsum", "dot", "linear", "conv1d", "conv2d", "prod", "cumprod",
    "tensordot", "inner", "outer", "var", "std", "norm",
}  # fmt: skip
GROWING = frozenset({
    "exp", "exp2", "expm1", "cosh", "sinh", "square", "pow", "power", "mul", "multiply", "add", "sub", "subtract",
    "half", "to", "bfloat16", "float", "type", "astype", "cast", "mul_", "add_", "exp_", "square_", "logsumexp",
})  # fmt: skip
"""Operations without a pole: a finite number that becomes Inf there has left the range of its dtype."""

LARGEST = {"float16": "65504", "bfloat16": "3.39e38", "float32": "3.40e38", "float64": "1.80e308"}


# backward


def _zero(x: Array) -> Array:
    return x == 0


def _one(x: Array) -> Array:
    return abs(x) == 1


POLES: Mapping[str, Callable[[Array], Array]] = {
    **dict.fromkeys(("sqrt", "rsqrt", "log", "log2", "log10", "reciprocal", "div", "atan2"), _zero),
    **dict.fromkeys(("norm", "linalgvectornorm"), _zero),
    **dict.fromkeys(("pow", "powtensorself", "powtensortensor"), _zero),
    **dict.fromkeys(("acos", "asin", "atanh", "arccos", "arcsin", "arctanh", "acosh", "arccosh"), _one),
    "log1p": lambda x: x == -1,
}  # fmt: skip
"""Where the derivative of an operation is infinite, by its name in small letters."""

STEADY = frozenset({
    "mul", "mm", "bmm", "addmm", "add", "sub", "exp", "sum", "mean", "matmul", "dot", "expand", "square", "neg",
    "linear", "tocopy", "convolution", "baddbmm", "cosh", "sinh",
})  # fmt: skip
"""Operations whose derivative is finite wherever they are."""

PRODUCTS = frozenset({"mul", "pow", "square", "exp", "div"})
"""Operations whose backward multiplies number by number: of Inf and a finite number NaN comes only with zero."""


@dataclass(frozen=True)
class Place:
    """The numbers at the places where a gradient is not finite: of the value, and of what came to the operation."""

    values: Array | None
    given: Array | None

    @property
    def is_zero_given(self) -> bool:
        """Was every gradient there zero, before the operation?"""
        return self.given is not None and self.given.size > 0 and bool((self.given == 0).all())

    @property
    def is_infinite_given(self) -> bool:
        """Was every gradient there Inf?"""
        return self.given is not None and self.given.size > 0 and bool(numpy.isinf(self.given).all())


def backward(operation: str, made: str, place: Place, dtype: str) -> str:
    """The name of what happened to a gradient, empty where the numbers do not show it."""
    name = operation.lower().rstrip("_")
    poles = _poles(name, place.values)
    infinite = f"the derivative of {name} {INFINITE} at {_shown(poles)}" if poles is not None and poles.size else ""
    if made == "nan" and place.is_zero_given:
        told = ZERO_INF if infinite else _by_zero(place.values)
        return f"{told}: a zero gradient" + (f", and {infinite}" if infinite else "")
    if made == "nan" and name in PRODUCTS and place.is_infinite_given:  # twice Inf is Inf, so it is not a pole
        return f"{ZERO_INF}: a gradient of Inf"
    if infinite:
        return infinite if made == "inf" else f"{ZERO_INF}: {infinite}"
    if made == "inf" and name in STEADY:
        return f"{OVERFLOW}: {dtype} ends at {LARGEST[dtype]}" if dtype in LARGEST else OVERFLOW
    return ""


def _poles(name: str, values: Array | None) -> Array | None:
    """Those of the values at which the derivative is infinite. The others are bad for what else they flow into."""
    is_pole = POLES.get(name)
    return None if is_pole is None or values is None else values[is_pole(values)]


def _by_zero(values: Array | None) -> str:
    """What a zero gradient was multiplied by that gave NaN, where the value that was read there tells."""
    if values is not None and values.size and numpy.isnan(values).all():
        return "0 · NaN"
    return ZERO_INF if values is not None and numpy.isinf(values).any() else f"{ZERO_INF} or 0 · NaN"


def _shown(values: Array) -> str:
    different = sorted({value + 0.0 for value in values.reshape(-1)[:1000].tolist()}, key=abs)
    return " and ".join(f"{value:g}" for value in different[:2])


# operands


def at(array: Array | None, bad: Array) -> Array | None:
    """The numbers of an array at the places that are bad; None where its shape is another.

    A single number is at each of them: a sum hands its gradient on to all that it was computed from.
    """
    if array is not None and array.size == 1:
        return array.reshape(-1)
    return None if array is None or array.shape != bad.shape else array[bad]


SPELLED = ("inf", "-inf", "nan", "infinity", "-infinity")


def literal(node: ast.expr) -> Array | None:
    """The number that an expression writes out; None for any other."""
    match node:
        case ast.Constant(value=bool() | int() | float() | complex() as value):
            return number(value)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            inner = literal(operand)
            return None if inner is None else -inner
        case ast.Call(func=ast.Name(id="float"), args=[ast.Constant(value=str() as text)]) if text.lower() in SPELLED:
            return number(float(text))
        case ast.Attribute(value=ast.Name(), attr=("inf" | "nan") as text):
            return number(float(text))
    return None


def number(value: object) -> Array | None:
    """A plain number as an array; None for anything else, and for an integer that no float holds."""
    if not isinstance(value, int | float | complex):
        return None
    try:
        return numpy.asarray(value, complex if isinstance(value, complex) else float)
    except OverflowError:
        return None


def text(node: ast.expr) -> str:
    """The text that entries are found by."""
    return ast.unparse(node)


def quiet() -> numpy.errstate:
    """Within this context comparisons with NaN say nothing."""
    return numpy.errstate(all="ignore")
