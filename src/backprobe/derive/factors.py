"""The factor of an edge: its formula's derivative if that agrees with the recorded numbers, else a recorded number.

Between tensors, a factor without a formula has no number.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy

from backprobe.derive.calculus import derivative
from backprobe.derive.evaluate import DTYPES, JUMPING, NumberRounding, agree, evaluate, kinks
from backprobe.derive.formula import Unwritten, parse
from backprobe.derive.notation import Text
from backprobe.derive.tree import Apply, Tree, named, parts
from backprobe.errors import Overwritten
from backprobe.findings.phrasing import shorten
from backprobe.record.entries import Entry, GradStatus
from backprobe.record.graph import Graph
from backprobe.record.inputs import Edge
from backprobe.record.names import split
from backprobe.record.source import expression_of

# arrays of up to this many elements are checked completely; of larger ones about as many elements, evenly spaced
WHOLE = 16_384


@dataclass(frozen=True)
class Factor:
    """The local derivative of one value (``of``) with respect to another (``wrt``), by their positions.

    ``tree`` is the formula of the derivative, whose symbols are the entries at ``symbols``. It is None if there is no
    formula that agrees with the recorded numbers, and ``why`` is then the reason. ``number`` is the recorded partial
    between two single numbers. ``numbers`` are the formula's values for each element, if they were checked against the
    recorded contribution.
    """

    of: int
    wrt: int
    tree: Tree | None = None
    symbols: tuple[int, ...] = ()
    number: float | None = None
    numbers: Any = None
    why: str = ""
    agrees: bool = True


@dataclass(frozen=True)
class CheckedFormula:
    """The formula by which an entry is computed from other entries, checked against the entry's recorded value."""

    tree: Tree
    symbols: tuple[int, ...]
    values: tuple[Any, ...]  # the values of the symbols, at the elements that are checked
    rounding: NumberRounding


class Disagrees(Unwritten):
    """Raised if a formula gives other numbers than the recorded ones."""


# Functions for the formula of an entry.


def formula_of(graph: Graph, at: int) -> CheckedFormula | Unwritten:
    """The formula of an entry, checked against its recorded value, or the reason why there is none."""
    try:
        return _read(graph, at)
    except Unwritten as error:
        return error


def _read(graph: Graph, at: int) -> CheckedFormula:
    entry = graph.entries[at]
    source = entry.source
    if source is None or not source.expression:
        where = f" (`{shorten(source.text)}`)" if source is not None and source.text else ""
        raise Unwritten(f"no expression is recorded for {entry.name}{where}")
    _refuse_numbers(entry)
    reads = [(read.spelled, read.at) for read in entry.reads if read.at < len(graph.entries)]
    members = [  # the parameters and module results that flow into the entry
        (path, one)
        for one in graph.inputs[at]
        for path in (graph.entries[one].name, *graph.entries[one].aliases)
        if split(path)[1] is None
    ]
    formula = parse(source.expression, reads, members, source.calls)
    read = [graph.entries[symbol] for symbol in formula.symbols]
    for each in read:
        _refuse_numbers(each)
    shape = entry.shape or ()
    if _broadcast([each.shape or () for each in read]) != shape:
        raise Unwritten(f"`{shorten(source.expression)}` is not elementwise")
    recorded, *values = numpy.broadcast_arrays(*(to_array(_held(each), shape) for each in (entry, *read)))
    rounding = NumberRounding.of(each.dtype for each in (entry, *read))
    ours, errors = evaluate(formula.tree, values, rounding)
    _compare(f"`{shorten(source.expression)}`", ours, errors, recorded, rounding)
    return CheckedFormula(formula.tree, formula.symbols, tuple(values), rounding)


def _refuse_numbers(entry: Entry) -> None:
    # Raise Unwritten unless the entry is a real, dense, available array or number that can be checked.
    if entry.status is GradStatus.NOT_TENSOR:
        if not isinstance(entry.held, int | float):
            raise Unwritten(f"{entry.name} is not a real number")
    elif entry.shape is None or entry.held is None:
        raise Unwritten(f"{entry.name} has no numbers to check against")
    elif "complex" in (entry.dtype or ""):
        raise Unwritten(f"{entry.name} is complex")
    elif "float" in (entry.dtype or "") and entry.dtype not in DTYPES:
        raise Unwritten(f"{entry.name} has the coarse dtype {entry.dtype}")


def _held(entry: Entry) -> Any:
    try:
        return entry.value
    except Overwritten:
        raise Unwritten(f"the value of {entry.name} was overwritten") from None


# Functions for the derivative of a formula.


def factor_of(
    graph: Graph, of: int, wrt: int, edge: Edge, known: CheckedFormula | Unwritten, names: Mapping[int, str]
) -> Factor:
    """The factor of an edge as a formula over the given names, or without a formula and with the reason."""
    consumer, source = graph.entries[of], graph.entries[wrt]
    number = _number(consumer, source, edge)
    try:
        if isinstance(known, Unwritten):
            raise known
        if wrt not in known.symbols:
            expression = expression_of(consumer.source)
            raise Unwritten(f"`{shorten(expression)}` does not mention {names[wrt]}")
        tree = derivative(known.tree, known.symbols.index(wrt))
        if any(isinstance(part, Apply) and part.op in JUMPING for part in parts(tree)):
            _refuse_kinks(known, [names[symbol] for symbol in known.symbols], size(consumer))
        ours, errors = evaluate(tree, known.values, known.rounding)
        if number is None:
            _against_contribution(known.rounding, ours, errors, consumer, source, edge)
        else:
            _compare("its derivative", ours, errors, number, known.rounding)
    except Unwritten as error:
        return Factor(of, wrt, number=number, why=str(error), agrees=not isinstance(error, Disagrees))
    numbers = numpy.broadcast_to(ours, known.values[0].shape) if number is None else None
    return Factor(of, wrt, tree, known.symbols, number, numbers)


def _number(consumer: Entry, source: Entry, edge: Edge) -> float | None:
    # The recorded partial between two real numbers; None for anything else.
    if edge.partial is None or not size(consumer) == size(source) == 1:
        return None
    try:
        return single(edge.partial)
    except Unwritten:
        return None


def _refuse_kinks(known: CheckedFormula, names: Sequence[str], elements: int) -> None:
    for function, ties in kinks(known.tree, known.values, known.rounding):
        inside = [Text().write(named(arg, names))[0] for arg in function.args]
        where = " = ".join(inside if len(inside) > 1 else [*inside, "0"])
        reached = f", reached by {ties} of {elements:,} elements" if elements > 1 else ""
        raise Unwritten(f"{function.op} has a kink at {where}{reached}")


def _against_contribution(
    rounding: NumberRounding, ours: Any, errors: Any, consumer: Entry, source: Entry, edge: Edge
) -> None:
    # Check that the derivative times the consumer's gradient equals the recorded contribution to the input's gradient.
    shape, own = consumer.shape or (), source.shape or ()
    if edge.contribution is None or consumer.grad_or_none is None:
        raise Unwritten("no number is recorded to check its derivative against")
    if math.prod(shape) > WHOLE and own != shape:
        raise Unwritten(f"each element of it sums more than the {WHOLE:,} elements that are checked")
    arrived, recorded = to_array(consumer.grad_or_none, shape), to_array(edge.contribution, shape)
    with numpy.errstate(all="ignore"):
        flow = arrived * ours
        moved = numpy.abs(arrived) * errors + numpy.abs(flow) * rounding.eps
    if own != shape:
        flow, moved = _summed(flow, own), _summed(moved, own)
    _compare("its derivative", flow, moved, recorded, rounding)


def _compare(what: str, ours: Any, errors: Any, recorded: Any, rounding: NumberRounding) -> None:
    # Raise an error if a formula gives other numbers than the recorded ones: Unwritten if one of the two has
    # overflowed, else Disagrees.
    if agree(ours, errors, recorded, rounding):
        return
    if numpy.any(~numpy.isfinite(ours) & numpy.isfinite(recorded)):
        raise Unwritten(f"{what} is not finite in double precision here")
    if numpy.any(~numpy.isfinite(recorded) & numpy.isfinite(ours)):
        raise Unwritten(f"{what} overflows the dtype that it is recorded in")
    raise Disagrees(f"{what} gives {_first_apart(ours, recorded)} is recorded")


def size(entry: Entry) -> int:
    """Return the number of elements of an entry: 1 for a number, and 0 for a nested tensor, whose size is unknown."""
    return math.prod(entry.shape) if entry.shape is not None else int(entry.status is GradStatus.NOT_TENSOR)


def to_array(tensor: Any, shape: tuple[int, ...]) -> Any:
    """Return a tensor or number that is broadcast to a shape, as an array of doubles. Raises Unwritten.

    If the shape has too many elements, only evenly spaced ones along each axis are kept.
    """
    wanted = int(WHOLE ** (1 / len(shape))) if math.prod(shape) > WHOLE else math.inf
    places = tuple(slice(None, None, max(1, math.ceil(length / wanted))) for length in shape)
    try:
        if wanted < math.inf and tensor.shape:
            tensor = tensor[places[-len(tensor.shape) :]]
        return numpy.asarray(tensor.tolist() if hasattr(tensor, "tolist") else tensor, numpy.float64)
    except (RuntimeError, TypeError, ValueError, OverflowError):
        raise Unwritten("its numbers cannot be read one by one") from None


def single(tensor: Any) -> float:
    """The number in a tensor of one element. Raises Unwritten."""
    try:
        return float(to_array(tensor, ()).item())
    except ValueError:
        raise Unwritten("it is not a single number") from None


def _broadcast(shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...] | None:
    try:
        return tuple(numpy.broadcast_shapes(*shapes))
    except ValueError:
        return None


def _summed(array: Any, own: tuple[int, ...]) -> Any:
    # Sum an array over its broadcast axes, to the original shape.
    padded = (1,) * (array.ndim - len(own)) + own
    return array.sum(axis=tuple(at for at, length in enumerate(padded) if length == 1)).reshape(own)


def _first_apart(ours: Any, recorded: Any) -> str:
    # The two numbers with the largest difference as text, such as "6 where 5".
    ours, recorded = numpy.broadcast_arrays(ours, recorded)
    apart = numpy.nan_to_num(numpy.abs(ours - recorded), nan=math.inf)
    at = numpy.unravel_index(int(numpy.argmax(apart)), apart.shape) if apart.ndim else ()
    return f"{float(ours[at]):.6g} where {float(recorded[at]):.6g}"
