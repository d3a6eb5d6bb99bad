"""Risky operations: the ends of an operand's range at which the result or the derivative stops being finite.

No derivative is computed here. A goal is an end of an operand's range. Only the framework decides whether the program
breaks when the operand reaches this end.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy

from backprobe.backends.discover import load_arrays
from backprobe.explain.nonfinite.evidence import Evidence
from backprobe.explain.nonfinite.terms import Term
from backprobe.record.entries import Entry, GradStatus, Record
from backprobe.record.held import Lost
from backprobe.record.source import Source, expression_of

Array = Any
Side = Literal["below", "above", "zero"]
RESULT = -1  # a position: the operand is the operation's own result. The derivative of a norm breaks if the norm is 0.


@dataclass(frozen=True)
class Goal:
    """An end of an operand's range. The operation may break if the ``margin`` of a number is not positive."""

    side: Side
    limit: float = 0.0

    def margin(self, numbers: Array) -> Array:
        """The distance of numbers from the end; negative beyond the end."""
        if self.side == "zero":
            return numpy.abs(numbers)
        return numbers - self.limit if self.side == "below" else self.limit - numbers

    def slope(self, number: float) -> float:
        """The derivative of the margin with respect to the number."""
        if self.side == "zero":
            return -1.0 if number < 0 else 1.0
        return 1.0 if self.side == "below" else -1.0


BELOW, ZERO = Goal("below"), Goal("zero")
LARGEST = {"float16": 65504.0, "bfloat16": 3.3895e38, "float32": 3.4028235e38, "float64": 1.7976931348623157e308}

Goals = Sequence[tuple[int, Goal]]
"""The operands of an operation, by position, and the ends of their ranges."""


def _fixed(*goals: Goal, operand: int = 0) -> Callable[[float, Sequence[Array]], Goals]:
    return lambda largest, operands: [(operand, goal) for goal in goals]


def _overflow(inverse: Callable[[float], float], *, both: bool = False) -> Callable[[float, Sequence[Array]], Goals]:
    # For operations that overflow: the limit is the operand whose result is the largest number of the dtype.
    def goals(largest: float, operands: Sequence[Array]) -> Goals:
        limit = inverse(largest)
        return [(0, Goal("above", limit)), *([(0, Goal("below", -limit))] if both else [])]

    return goals


def _power(largest: float, operands: Sequence[Array]) -> Goals:
    # If the exponent is a single number, the ends of the base's range depend on it. If the exponent is an array and the
    # base is a single positive number other than 1, the exponent has an end too, where the power overflows.
    base, exponent = [*operands, None, None][:2]
    if exponent is None:
        return [(0, BELOW)]
    if numpy.ndim(exponent):
        overflow = _exponent(largest, base)
        return [(0, BELOW), *([] if overflow is None else [(1, overflow)])]
    number = float(exponent)
    found: list[tuple[int, Goal]] = []
    if number % 1:
        found.append((0, BELOW))
    elif number < 0:
        found.append((0, ZERO))
    if number > 1:
        limit = largest ** (1 / number)
        found += [(0, Goal("above", limit)), *([] if number % 1 else [(0, Goal("below", -limit))])]
    return found


def _exponent(largest: float, base: Array) -> Goal | None:
    # The exponent at which the power of a constant base overflows; None if the base is unknown, an array, 1, or not
    # positive.
    if base is None or numpy.ndim(base) or float(base) <= 0 or float(base) == 1:
        return None
    limit = math.log(largest) / math.log(float(base))
    return Goal("above" if limit > 0 else "below", limit)


def _between(low: float, high: float) -> Callable[[float, Sequence[Array]], Goals]:
    return _fixed(Goal("below", low), Goal("above", high))


RISKS: Mapping[str, Callable[[float, Sequence[Array]], Goals]] = {
    **dict.fromkeys(("log", "log2", "log10", "sqrt", "rsqrt", "lgamma", "gammaln", "digamma", "entr"), _fixed(BELOW)),
    "log1p": _fixed(Goal("below", -1.0)),
    "acosh": _fixed(Goal("below", 1.0)),
    **dict.fromkeys(("acos", "asin", "atanh", "erfinv"), _between(-1.0, 1.0)),
    "logit": _between(0.0, 1.0),
    "reciprocal": _fixed(ZERO),
    **dict.fromkeys(("div", "remainder", "floordiv"), _fixed(ZERO, operand=1)),
    "xlogy": _fixed(BELOW, operand=1),
    "pow": _power,
    **dict.fromkeys(("exp", "expm1"), _overflow(math.log)),
    "exp2": _overflow(math.log2),
    **dict.fromkeys(("cosh", "sinh"), _overflow(lambda largest: math.log(largest) + math.log(2), both=True)),
    "square": _overflow(math.sqrt, both=True),
    **dict.fromkeys(("norm", "std", "cdist", "hypot"), _fixed(BELOW, operand=RESULT)),
}
"""For each risky operation, by its name in all frameworks: a function that finds the ends of its operands' ranges."""


@dataclass(frozen=True)
class Risk:
    """One end of an operand's range in a risky operation.

    ``name`` is the printed name of the operation's result, and ``operand`` the full name of its operand. ``text`` and
    ``operand_text`` are their expressions in the source. ``example`` is the operand's number nearest to the end in the
    example, and ``of`` is the count of the operand's numbers.
    """

    goal: Goal
    name: str
    operand: str
    text: str
    operand_text: str
    source: Source
    example: float
    of: int
    position: int

    @property
    def place(self) -> tuple[str, int, str]:
        """The operation in the source, regardless of its callers."""
        return self.source.file, self.source.line, self.text


Unsearched = tuple[str, str]
"""The code of the reason why an operand cannot be searched, and the operation's expression in the source."""


def risks_of(record: Record) -> tuple[list[Risk], list[Unsearched]]:
    """The risky operations of a recording, in execution order, and the operations whose operands cannot be searched.

    An end of an operand's range is a number at which the result or the derivative stops being finite. If an operation
    runs several times, only the run whose operand is nearest to the end is listed, for each end.
    """
    known = Evidence(record, load_arrays(record.backend))
    full = {at: name for name, at in [*record.names.items()][::-1]}
    nearest: dict[tuple[object, ...], Risk] = {}
    unsearched: dict[Unsearched, None] = {}
    for at in range(len(known.entries)):
        for risk in _at(known, full, at):
            if isinstance(risk, tuple):
                unsearched[risk] = None
                continue
            same = *risk.place, risk.goal
            before = nearest.get(same)
            if before is None or _margin(risk) < _margin(before):
                nearest[same] = risk
    return sorted(nearest.values(), key=lambda one: one.position), list(unsearched)


def _margin(risk: Risk) -> float:
    return float(risk.goal.margin(numpy.asarray(risk.example)))


def _at(known: Evidence, full: Mapping[int, str], at: int) -> Iterator[Risk | Unsearched]:
    entry, term = known.entries[at], known.term(at)
    goals = RISKS.get(term.op)
    source = known.place(at)
    if goals is None or source is None or entry.status is GradStatus.NOT_TENSOR:
        return
    operands = [_numbers(known, one) for one in term.args]
    largest = LARGEST.get(str(entry.dtype), LARGEST["float32"])
    for position, goal in goals(largest, operands):
        operand = term if position == RESULT else _operand(term, position)
        if operand is None or operand.is_constant:
            continue
        if operand.at is None:
            yield "unnamed", term.text
            continue
        held = known.entries[operand.at]
        if held.status is GradStatus.NOT_FLOAT:
            yield "not_float", _text(known, at, term)
            continue
        numbers = _readable(known, operand.at)
        if numbers is None or held.status is GradStatus.NOT_TENSOR:
            continue
        yield Risk(
            goal,
            entry.name,
            full[operand.at],
            _text(known, at, term),
            _text(known, operand.at, operand),
            source,
            nearest_to(goal, numbers)[1],
            numpy.size(numbers),
            at,
        )


def _operand(term: Term, position: int) -> Term | None:
    return term.args[position] if position < len(term.args) else None


def _numbers(known: Evidence, term: Term) -> Array:
    if term.is_constant:
        return term.constant if isinstance(term.constant, int | float) else None
    return None if term.at is None else _readable(known, term.at)


def _readable(known: Evidence, at: int) -> Array:
    entry = known.entries[at]
    if isinstance(entry.held_value, Lost):
        return None
    numbers = known.numbers(at)
    is_real = numbers is not None and numpy.asarray(numbers).dtype.kind in "fiu" and numpy.size(numbers)
    return numpy.asarray(numbers, float) if is_real else None


def _text(known: Evidence, at: int, term: Term) -> str:
    # The text of a value in the source: its expression, or its name.
    entry: Entry = known.entries[at]
    return term.text or expression_of(entry.source) or entry.name


def nearest_to(goal: Goal, numbers: Array) -> tuple[int, float, float]:
    """The index of the operand's number that is nearest to the end, the number itself, and its margin. NaN
    is ignored.
    """
    margins = goal.margin(numbers).reshape(-1)
    margins = numpy.where(numpy.isnan(margins), numpy.inf, margins)
    at = int(margins.argmin())
    return at, float(numpy.reshape(numbers, -1)[at]), float(margins[at])
