"""NumPy versions of the operations that a program calls, to evaluate a line again from the recorded numbers.

No derivative is computed here. A function that gets an argument which it does not support raises an error; the
framework may then evaluate the operation instead.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Mapping
from typing import Any

import numpy

from backprobe.backends.dialects import dialect_of

Array = Any
Shape = tuple[int, ...]

FAILING = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""Errors of Python and NumPy that show that a line was misread."""

MOST = 1_000_000
"""The largest number of elements of an operand that is evaluated again."""


def _axes(dim: Any) -> Any:
    # Convert a ``dim`` argument to NumPy's ``axis``: a number, a tuple, or None for all dimensions.
    if dim is None or isinstance(dim, int):
        return dim
    return tuple(map(int, numpy.ravel(numpy.asarray(dim))))


def _reduced(function: Callable[..., Array]) -> Callable[..., Array]:
    def reduced(x: Array, dim: Any = None, keepdim: Any = False) -> Array:
        return function(numpy.asarray(x), axis=_axes(dim), keepdims=bool(keepdim))

    return reduced


def _spread(is_root: bool, by_default: int) -> Callable[..., Array]:
    # Return a function for variance or standard deviation.
    def spread(x: Array, dim: Any = None, correction: Any = by_default, keepdim: Any = False) -> Array:
        if isinstance(dim, bool):
            raise TypeError("torch.std(x, unbiased)")
        made = numpy.var(x, axis=_axes(dim), ddof=int(correction), keepdims=bool(keepdim))
        return numpy.sqrt(made) if is_root else made

    return spread


def logsumexp(x: Array, dim: Any = None, keepdim: Any = False) -> Array:
    top = numpy.max(x, axis=_axes(dim), keepdims=True)
    top = numpy.where(numpy.isfinite(top), top, 0)
    made = numpy.log(numpy.sum(numpy.exp(x - top), axis=_axes(dim), keepdims=True)) + top
    return made if keepdim else numpy.squeeze(made, axis=_axes(dim))


def log_softmax(x: Array, dim: Any = -1) -> Array:
    shifted = x - numpy.max(x, axis=_axes(dim), keepdims=True)
    return shifted - numpy.log(numpy.sum(numpy.exp(shifted), axis=_axes(dim), keepdims=True))


def softmax(x: Array, dim: Any = -1) -> Array:
    shifted = numpy.exp(x - numpy.max(x, axis=_axes(dim), keepdims=True))
    return shifted / numpy.sum(shifted, axis=_axes(dim), keepdims=True)


def log_of_others(x: Array) -> Array:
    """The logarithm of 1 - softmax, computed from the sum of all other probabilities."""
    others = numpy.where(numpy.eye(x.shape[-1], dtype=bool), -numpy.inf, x[..., None, :])
    return logsumexp(others, -1) - logsumexp(x, -1, True)


def softplus(x: Array) -> Array:
    return numpy.maximum(x, 0) + numpy.log1p(numpy.exp(-numpy.abs(x)))


def norm(x: Array, p: Any = 2, dim: Any = None, keepdim: Any = False, ord: Any = None) -> Array:
    p = 2 if p is None or p == "fro" else p
    if ord not in (None, 2, "euclidean") or p != 2:
        raise TypeError(f"norm of order {p}")
    return numpy.sqrt(numpy.sum(numpy.square(numpy.abs(x)), axis=_axes(dim), keepdims=bool(keepdim)))


def clamp(x: Array, low: Any = None, high: Any = None, **bounds: Any) -> Array:
    low = bounds.get("min", bounds.get("clip_value_min", bounds.get("a_min", low)))
    high = bounds.get("max", bounds.get("clip_value_max", bounds.get("a_max", high)))
    return numpy.clip(x, low, high)


def masked_fill(x: Array, mask: Array, value: Any) -> Array:
    return numpy.where(mask, numpy.asarray(value, x.dtype), x)


def cdist(a: Array, b: Array, p: Any = 2) -> Array:
    return norm(a[..., :, None, :] - b[..., None, :, :], p, -1)


def nll_loss(logs: Array, labels: Array, *, ignore_index: Any = -100, reduction: Any = "mean") -> Array:
    if logs.ndim != 2 or labels.ndim != 1 or reduction != "mean":
        raise TypeError("a loss that is not the mean over rows")
    kept = labels != ignore_index
    return -logs[kept, labels[kept]].sum() / logs.dtype.type(kept.sum())


def cross_entropy(x: Array, labels: Array, **options: Any) -> Array:
    return nll_loss(log_softmax(x), labels, **options)


def expand(x: Array, *sizes: Any) -> Array:
    """Expand as PyTorch does: a size of -1 keeps the axis as it is."""
    sizes, new = tuple(map(int, numpy.ravel(sizes))), len(sizes) - x.ndim
    return numpy.broadcast_to(x, [x.shape[at - new] if size == -1 else size for at, size in enumerate(sizes)])


def setitem(x: Array, index: Any, value: Array) -> Array:
    made = numpy.array(x)
    made[index] = value
    return made


def xlogy(x: Array, y: Array) -> Array:
    return numpy.where(x == 0, 0, x * numpy.log(numpy.where(x == 0, 1, y)))


def made(array: Array, dtype: Any) -> Array:
    """Return a tensor that a line writes as literal numbers. Without ``dtype``, floating-point numbers get float32."""
    return array.astype(str(dtype) if dtype is not None else numpy.float32 if array.dtype.kind == "f" else array.dtype)


ELEMENTWISE: Mapping[str, Callable[..., Array]] = {
    **{name: getattr(numpy, name) for name in (
        "log", "log2", "log10", "log1p", "exp", "exp2", "expm1", "sqrt", "square", "abs", "sin", "cos", "tan", "sinh",
        "cosh", "tanh", "reciprocal", "sign", "floor", "ceil", "round", "isnan", "isinf", "isfinite", "maximum",
        "minimum", "fmax", "fmin", "hypot", "remainder", "conj", "logaddexp", "deg2rad",
    )},
    "acos": numpy.arccos, "asin": numpy.arcsin, "atan": numpy.arctan, "acosh": numpy.arccosh, "asinh": numpy.arcsinh,
    "atanh": numpy.arctanh, "atan2": numpy.arctan2, "angle": numpy.angle, "rsqrt": lambda x: 1 / numpy.sqrt(x),
    "neg": numpy.negative, "pos": numpy.positive, "invert": numpy.logical_not,
    "add": numpy.add, "sub": numpy.subtract, "mul": numpy.multiply, "div": numpy.true_divide, "pow": numpy.power,
    "floordiv": numpy.floor_divide, "squared_difference": lambda a, b: numpy.square(a - b), "xlogy": xlogy,
    "gt": numpy.greater, "ge": numpy.greater_equal, "lt": numpy.less, "le": numpy.less_equal, "eq": numpy.equal,
    "ne": numpy.not_equal, "and": numpy.logical_and, "or": numpy.logical_or,
    "sigmoid": lambda x: 1 / (1 + numpy.exp(-x)), "softplus": softplus, "log_sigmoid": lambda x: -softplus(-x),
    "logit": lambda x: numpy.log(x / (1 - x)),
    "relu": lambda x: numpy.maximum(x, 0), "clamp": clamp, "masked_fill": masked_fill,
    "nan_to_num": lambda x, nan=0.0, posinf=None, neginf=None: numpy.nan_to_num(x, True, nan, posinf, neginf),
    "detach": lambda x: x, "clone": lambda x: x, "contiguous": lambda x: x, "stop_gradient": lambda x: x,
    "identity": lambda x: x, "data": lambda x: x,
    "half": lambda x: numpy.asarray(x).astype(numpy.float16), "double": lambda x: numpy.asarray(x).astype(float),
    "float": lambda x: numpy.float32(float(x) if isinstance(x, str) else x),
    "zeros_like": numpy.zeros_like, "ones_like": numpy.ones_like,
}  # fmt: skip
"""Operations that work element by element, or with one number for all elements."""

OTHERS: Mapping[str, Callable[..., Array]] = {
    "where": lambda mask, a, b: numpy.where(mask, a, b),
    "sum": _reduced(numpy.sum),
    "mean": _reduced(numpy.mean),
    "prod": _reduced(numpy.prod),
    "amax": _reduced(numpy.max),
    "amin": _reduced(numpy.min),
    "logsumexp": logsumexp,
    "log_of_others": log_of_others,
    "softmax": softmax,
    "log_softmax": log_softmax,
    "norm": norm,
    "cdist": cdist,
    "cross_entropy": cross_entropy,
    "nll_loss": nll_loss,
    "diagonal": lambda x: numpy.diagonal(x, axis1=-2, axis2=-1),
    "matmul": numpy.matmul,
    "getitem": lambda x, index: x[index],
    "setitem": setitem,
    "slice": slice,
    "T": lambda x: x.T,
    "t": lambda x: x.T,
    "mT": lambda x: x.swapaxes(-1, -2),
    "real": numpy.real,
    "imag": numpy.imag,
    "unsqueeze": numpy.expand_dims,
    "expand_dims": lambda x, dim: numpy.expand_dims(x, int(dim)),
    "squeeze": lambda x, dim=None: numpy.squeeze(x, axis=_axes(dim)),
    "flatten": lambda x: x.reshape(-1),
    "view": lambda x, *shape: x.reshape(*shape),
    "reshape": lambda x, *shape: x.reshape(*shape),
    **dict.fromkeys(("tensor", "constant", "as_tensor", "array"), lambda x, dtype=None: made(numpy.asarray(x), dtype)),
    **dict.fromkeys(("to", "cast", "type", "astype"), lambda x, dtype: numpy.asarray(x).astype(str(dtype))),
    "shape": lambda x: x.shape,
    **dict.fromkeys(("numel", "nelement"), numpy.size),
    **dict.fromkeys(("ndim", "dim", "rank"), numpy.ndim),
    "len": len,
    "range": range,
    "arange": numpy.arange,
    "one_hot": lambda x, depth: numpy.eye(int(depth), dtype="float32")[x],
    "take_along_axis": lambda x, index, dim: numpy.take_along_axis(x, index, int(dim)),
    "index_select": lambda x, dim, index: numpy.take(x, index, int(dim)),
    "full": lambda shape, value, dtype=None: made(numpy.full(tuple(map(int, numpy.ravel(shape))), value), dtype),
    "full_like": numpy.full_like,
    "item": lambda x: x,
    "ones": lambda *shape, dtype=None: made(numpy.ones(shape), dtype),
    "zeros": lambda *shape, dtype=None: made(numpy.zeros(shape), dtype),
    "tile": lambda x, times: numpy.tile(x, [int(one) for one in times]),
    "broadcast_to": lambda x, shape: numpy.broadcast_to(x, [int(one) for one in shape]),
    "expand_as": lambda x, other: numpy.broadcast_to(x, other.shape),
    "expand": expand,
    "added": lambda xs, start=0: functools.reduce(operator.add, xs, start),
    "tuple": lambda *items: items,
    "stack": lambda xs, dim=0: numpy.stack(xs, int(dim)),
    "cat": lambda xs, dim=0: numpy.concatenate(xs, int(dim)),
}


def _with_position(
    function: Callable[..., Array], position: Callable[..., Array], of_two: Callable[..., Array]
) -> Callable[..., Array]:
    # Return PyTorch's ``max`` or ``min``: the extreme of all elements, values and positions along a dimension, or the
    # elementwise extreme of two tensors.
    def extreme(x: Array, dim: Any = None, keepdim: Any = False) -> Array:
        if isinstance(dim, numpy.ndarray | numpy.generic):
            return of_two(x, dim)
        made = function(x, axis=_axes(dim), keepdims=bool(keepdim))
        return made if dim is None else (made, position(x, axis=dim, keepdims=bool(keepdim)))

    return extreme


MEANINGS: Mapping[str, Callable[..., Array]] = {
    "along_axis": lambda x, dim, index: numpy.take_along_axis(x, index, int(dim)),
    "take": lambda x, index, dim=0: numpy.take(x, index, int(dim)),
    "take_nd": lambda x, index: x[tuple(numpy.moveaxis(numpy.asarray(index), -1, 0))],
    "swap_two": lambda x, one, other: numpy.swapaxes(x, int(one), int(other)),
    "permute": lambda x, perm=None: numpy.transpose(x, perm),
    "cumsum_along": lambda x, dim: numpy.cumsum(x, int(dim)),
    "cumsum_first": lambda x, dim=0: numpy.cumsum(x, int(dim)),
    "cumsum_or_flat": lambda x, dim=None: numpy.cumsum(x, dim),
    "cumprod_along": lambda x, dim: numpy.cumprod(x, int(dim)),
    "logcumsumexp_along": lambda x, dim: numpy.logaddexp.accumulate(x, int(dim)),
    "logcumsumexp_first": lambda x, dim=0: numpy.logaddexp.accumulate(x, int(dim)),
    "std_less_one": _spread(True, 1),
    "var_less_one": _spread(False, 1),
    "std_of_all": _spread(True, 0),
    "var_of_all": _spread(False, 0),
    "max": _reduced(numpy.max),
    "min": _reduced(numpy.min),
    "max_with_position": _with_position(numpy.max, numpy.argmax, numpy.maximum),
    "min_with_position": _with_position(numpy.min, numpy.argmin, numpy.minimum),
    "shape": lambda x, dim=None: x.shape if dim is None else x.shape[int(dim)],
    "count": numpy.size,
}
"""Operations whose meaning depends on the framework; each dialect says which one its operation is."""

ABSORBING = frozenset({"add", "sub", "mul", "neg", "sum", "mean", "matmul"})
"""Operations whose result is NaN or Inf if any operand is, whatever the other operands are."""


def function(op: str, framework: str) -> Callable[..., Array] | None:
    """The NumPy version of an operation, or None if there is none."""
    return ELEMENTWISE.get(op) or OTHERS.get(op) or MEANINGS.get(dialect_of(framework).meanings.get(op, ""))


def broadcast(*shapes: Shape) -> Shape | None:
    """The shape to which arrays of these shapes are broadcast; None if they do not fit together."""
    try:
        return numpy.broadcast_shapes(*shapes)
    except ValueError:
        return None


def typed(numbers: Array, dtype: str | None) -> Array:
    """Convert numbers back to their dtype, because recordings store them in double precision.

    bfloat16 becomes float32. Numbers of other dtypes that NumPy lacks are returned unchanged.
    """
    known = {"bfloat16": "float32", "bool": "bool", "str": None}.get(dtype or "", dtype)
    try:
        return numbers if known is None or numbers is None else numpy.asarray(numbers).astype(known)
    except TypeError:
        return numbers


def wider(numbers: Any, moved: float = 0.0) -> Any:
    """Convert floating-point numbers to a wider type, shifted relatively and absolutely by ``moved``.

    Other values are returned unchanged.

    >>> wider(numpy.array([0.0, 2.0], "float32"), 0.5), wider([1.0])
    (array([0.5, 3.5]), [1.0])
    """
    if not isinstance(numbers, numpy.ndarray | numpy.generic) or numbers.dtype.kind != "f":
        return numbers
    wide: Array = numpy.asarray(numbers, numpy.longdouble if numbers.dtype == numpy.float64 else numpy.float64)
    return wide + moved * (1 + abs(wide))


def is_bad(numbers: Array) -> Array:
    """Return a mask of the elements that are NaN or Inf; all False unless the dtype is floating point or complex."""
    array = numpy.asarray(numbers)
    return ~numpy.isfinite(array) if array.dtype.kind in "fc" else numpy.zeros(array.shape, bool)
