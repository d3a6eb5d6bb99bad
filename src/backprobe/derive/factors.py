"""The factor of an edge: the derivative of its formula if that agrees with the recorded numbers, else those."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from backprobe.derive.calculus import derivative
from backprobe.derive.evaluate import DTYPES, Rounding, agree, evaluate, kinks
from backprobe.derive.formula import Unwritten, parse
from backprobe.derive.notation import Text, write
from backprobe.derive.tree import Apply, Tree, parts
from backprobe.errors import Overwritten
from backprobe.findings.phrasing import shorten
from backprobe.record.entries import Entry, GradStatus
from backprobe.record.graph import Graph
from backprobe.record.inputs import Edge
from backprobe.record.names import split

WHOLE = 16_384  # elements up to which all are checked
SAMPLED = 64  # elements that are checked beyond


@dataclass(frozen=True)
class Factor:
    """The local derivative of one value (``of``) with respect to another (``wrt``), by their positions.

    ``tree`` is the formula, whose symbols are the entries at ``symbols``; None where there is none that agrees, and
    ``why`` says so. ``number`` is the recorded partial between two single numbers. ``numbers`` are what the formula
    gives element by element, where that is checked against the recorded contribution.
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
class Known:
    """What an entry computes as a formula over other entries, checked against its value at these elements."""

    tree: Tree
    symbols: tuple[int, ...]
    values: tuple[Any, ...]  # of the symbols, at the elements that are checked
    rounding: Rounding


class Disagrees(Unwritten):
    """There is a formula, and it does not give what was recorded."""


class Factors:
    """The factors of a record's edges. ``names`` says what entries are called, by position, once those are chosen."""

    def __init__(self, graph: Graph) -> None:
        self.graph, self.entries = graph, graph.entries
        self.positions = graph.positions
        self.formula = cache(self._formula)  # of this object alone
        self.array = cache(self._array)

    def factor(self, of: int, wrt: int, edge: Edge, names: Mapping[int, str]) -> Factor:
        """The factor of an edge, with its reason in the given names where it is not written out."""
        number = self._number(of, wrt, edge)
        try:
            known = self.formula(of)
            if isinstance(known, Unwritten):
                raise known
            tree, numbers = self._checked(known, of, wrt, edge, number, names)
        except Unwritten as error:
            return Factor(of, wrt, number=number, why=str(error), agrees=not isinstance(error, Disagrees))
        return Factor(of, wrt, tree, known.symbols, number, numbers)

    def _number(self, of: int, wrt: int, edge: Edge) -> float | None:
        """The recorded partial between two real numbers."""
        if edge.partial is None or not size(self.entries[of]) == size(self.entries[wrt]) == 1:
            return None
        try:
            return single(edge.partial)
        except Unwritten:
            return None

    def known(self, at: int) -> Known | None:
        """The formula of an entry, where it has one that gives its recorded value."""
        found = self.formula(at)
        return found if isinstance(found, Known) else None

    # the formula of an entry

    def _formula(self, at: int) -> Known | Unwritten:
        try:
            return self._read(at)
        except Unwritten as error:
            return error

    def _read(self, at: int) -> Known:
        entry = self.entries[at]
        source = entry.source
        if source is None or not source.expression:
            raise Unwritten(_without_expression(entry))
        self._refuse_numbers(entry)
        reads = [(read.spelled, read.name) for read in entry.reads if read.name in self.positions]
        formula = parse(source.expression, reads, self._members(at), source.calls)
        symbols = tuple(self.positions[name] for name in formula.names)
        for symbol in symbols:
            self._refuse_numbers(self.entries[symbol])
        shape = entry.shape or ()
        if _broadcast([self.entries[symbol].shape or () for symbol in symbols]) != shape:
            raise Unwritten(f"`{shorten(source.expression)}` is not elementwise")
        chosen = places(shape)
        values = tuple(self._values(symbol, shape, chosen) for symbol in symbols)
        rounding = Rounding.of(self.entries[each].dtype for each in (at, *symbols))
        ours, errors = evaluate(formula.tree, values, rounding)
        recorded = self._values(at, shape, chosen)
        _compare(f"`{shorten(source.expression)}`", ours, errors, recorded, rounding)
        return Known(formula.tree, symbols, values, rounding)

    def _members(self, at: int) -> list[tuple[str, str]]:
        """The parameters, and what modules returned, that flow into an entry: their paths, and their names."""
        sources = [self.entries[source] for source in self.graph.inputs[at]]
        return [(path, each.name) for each in sources for path in (each.name, *each.aliases) if split(path)[1] is None]

    def _refuse_numbers(self, entry: Entry) -> None:
        """Only real, dense numbers that are still there can be checked."""
        if entry.status is GradStatus.NOT_TENSOR:
            if not isinstance(entry.held_value, int | float):
                raise Unwritten(f"{entry.name} is not a real number")
        elif entry.shape is None or entry.held_value is None:
            raise Unwritten(f"{entry.name} has no numbers to check against")
        elif "complex" in (entry.dtype or ""):
            raise Unwritten(f"{entry.name} is complex")
        elif "float" in (entry.dtype or "") and entry.dtype not in DTYPES:
            raise Unwritten(f"{entry.name} has the coarse dtype {entry.dtype}")

    def _values(self, at: int, shape: tuple[int, ...], chosen: Sequence[tuple[int, ...]] | None) -> Any:
        """The numbers of an entry broadcast to a shape, or at some places of it."""
        import numpy

        if chosen is None:
            return numpy.broadcast_to(self.array(at), shape)
        own = self.entries[at].shape or ()
        offset = len(shape) - len(own)
        held = self._held(at)
        found = [
            single(
                held[tuple(0 if length == 1 else place[offset + n] for n, length in enumerate(own))] if own else held
            )
            for place in chosen
        ]
        return numpy.asarray(found, numpy.float64)

    def _held(self, at: int) -> Any:
        try:
            return self.entries[at].value
        except Overwritten:
            raise Unwritten(f"the value of {self.entries[at].name} was overwritten") from None

    def _array(self, at: int) -> Any:
        return to_array(self._held(at), self.entries[at].shape or ())

    # its derivative

    def _checked(
        self, known: Known, of: int, wrt: int, edge: Edge, number: float | None, names: Mapping[int, str]
    ) -> tuple[Tree, Any]:
        """The derivative, and its numbers where they are many. Raises Unwritten, and Disagrees where they differ."""
        if wrt not in known.symbols:
            source = self.entries[of].source
            raise Unwritten(f"`{shorten(source.expression if source else '')}` does not mention {names[wrt]}")
        tree = derivative(known.tree, known.symbols.index(wrt))
        met = kinks(known.tree, known.values, known.rounding) if _is_kinked(tree) else []
        if met:
            raise Unwritten(_kink(*met[0], [names[symbol] for symbol in known.symbols], size(self.entries[of])))
        ours, errors = evaluate(tree, known.values, known.rounding)
        if number is not None:
            _compare("its derivative", ours, errors, number, known.rounding)
            return tree, None
        return tree, self._against_contribution(known, ours, errors, of, wrt, edge)

    def _against_contribution(
        self, known: Known, ours: Any, errors: Any, of: int, wrt: int, edge: Edge
    ) -> Any:  # fmt: skip
        """The derivative times the consumer's gradient must be what flows into the input's gradient."""
        import numpy

        consumer, source = self.entries[of], self.entries[wrt]
        shape, own = consumer.shape or (), source.shape or ()
        if edge.contribution is None or consumer.grad_or_none is None:
            raise Unwritten("no number is recorded to check its derivative against")
        chosen = places(shape)
        if chosen is not None and own != shape:
            raise Unwritten(f"each element of it sums more than the {WHOLE:,} elements that are checked")
        with numpy.errstate(all="ignore"):
            if chosen is None:
                arrived = to_array(consumer.grad_or_none, shape)
                flow, recorded = arrived * ours, to_array(edge.contribution, own)
            else:
                arrived, recorded = (
                    numpy.asarray([single(tensor[place]) for place in chosen], numpy.float64)
                    for tensor in (consumer.grad_or_none, edge.contribution)
                )
                flow = arrived * ours
            moved = numpy.abs(arrived) * errors + numpy.abs(flow) * known.rounding.eps
        if chosen is None:
            flow, moved = _summed(flow, shape, own), _summed(moved, shape, own)
        _compare("its derivative", flow, moved, recorded, known.rounding)
        return numpy.broadcast_to(ours, shape if chosen is None else (len(chosen),))


def _compare(what: str, ours: Any, errors: Any, recorded: Any, rounding: Rounding) -> None:
    """Raise where a formula does not give what was recorded: Disagrees, unless it only left the range of doubles."""
    import numpy

    if agree(ours, errors, recorded, rounding):
        return
    if numpy.any(~numpy.isfinite(ours) & numpy.isfinite(recorded)):
        raise Unwritten(f"{what} is not finite in double precision here")
    if numpy.any(~numpy.isfinite(recorded) & numpy.isfinite(ours)):
        raise Unwritten(f"{what} overflows the dtype that it is recorded in")
    raise Disagrees(f"{what} gives {_first_apart(ours, recorded)} is recorded")


def size(entry: Entry) -> int:
    """How many elements an entry has; a number has one, a nested tensor an unknown number, given as 0."""
    return math.prod(entry.shape) if entry.shape is not None else int(entry.status is GradStatus.NOT_TENSOR)


def to_array(tensor: Any, shape: tuple[int, ...]) -> Any:
    """A tensor of any framework, or a number, as doubles. Raises Unwritten where it has no dense numbers."""
    import numpy

    try:
        return numpy.asarray(tensor.tolist() if hasattr(tensor, "tolist") else tensor, numpy.float64).reshape(shape)
    except (RuntimeError, TypeError, ValueError, OverflowError):
        raise Unwritten("its numbers cannot be read one by one") from None


def single(tensor: Any) -> float:
    return float(to_array(tensor, ()))


def _broadcast(shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...] | None:
    import numpy

    try:
        return tuple(numpy.broadcast_shapes(*shapes))
    except ValueError:
        return None


def places(shape: tuple[int, ...]) -> list[tuple[int, ...]] | None:
    """Where a large array is looked at: evenly spaced elements; None for all of a small one."""
    import numpy

    whole = math.prod(shape)
    if whole <= WHOLE:
        return None
    chosen = numpy.linspace(0, whole - 1, SAMPLED).astype(numpy.int64)
    return [tuple(int(at) for at in numpy.unravel_index(flat, shape)) for flat in chosen]


def _summed(array: Any, shape: tuple[int, ...], own: tuple[int, ...]) -> Any:
    """An array of ``shape`` summed to the shape that was broadcast to it."""
    import numpy

    array = numpy.broadcast_to(array, shape)
    leading = len(shape) - len(own)
    array = array.sum(axis=tuple(range(leading)))
    stretched = tuple(at for at, length in enumerate(own) if length == 1)
    return array.sum(axis=stretched, keepdims=True)


def _first_apart(ours: Any, recorded: Any) -> str:
    """The two numbers that are farthest apart, as "6 where 5"."""
    import numpy

    ours, recorded = numpy.broadcast_arrays(ours, recorded)
    apart = numpy.nan_to_num(numpy.abs(ours - recorded), nan=math.inf)
    at = numpy.unravel_index(int(numpy.argmax(apart)), apart.shape) if apart.ndim else ()
    return f"{float(ours[at]):.6g} where {float(recorded[at]):.6g}"


def _is_kinked(tree: Tree) -> bool:
    return any(isinstance(part, Apply) and part.op in ("step", "sign") for part in parts(tree))


def _kink(function: Apply, ties: int, names: Sequence[str], elements: int) -> str:
    inside = [write(arg, names, Text())[0] for arg in function.args]
    where = " = ".join(inside if len(inside) > 1 else [*inside, "0"])
    return f"{function.op} has a kink at {where}" + (
        f", reached by {ties} of {elements:,} elements" if elements > 1 else ""
    )


def _without_expression(entry: Entry) -> str:
    where = f" (`{shorten(entry.source.text)}`)" if entry.source is not None and entry.source.text else ""
    return f"no expression is recorded for {entry.name}{where}"
