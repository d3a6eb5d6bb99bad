"""Formats the numbers at the first element that is not finite: the element, and those it was computed from."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

import numpy

from backprobe.explain.nonfinite.arithmetic import ELEMENTWISE, FAILING, Shape, broadcast
from backprobe.explain.nonfinite.computation import Computation
from backprobe.explain.nonfinite.evidence import Evidence
from backprobe.explain.nonfinite.matrices import condition, equal
from backprobe.explain.nonfinite.terms import Term, known_as
from backprobe.explain.nonfinite.text import MOST, Mechanism, say
from backprobe.findings.phrasing import shorten
from backprobe.record.elements import result_of

Array = Any
Index = tuple[int, ...]

OPERATORS = {"div": "/", "mul": "*", "add": "+", "sub": "−", "pow": "**"}
SHOWN = 6  # the largest number of operands that are listed
OF_MATRICES = ("determinant_zero", "determinant_below", "not_definite", "singular")
"""Mechanisms for which the properties of the matrix are examined."""


def shown(number: Any) -> str:
    """Format a number for a message.

    >>> shown(0.0), shown(-numpy.inf), shown(3), shown(1e-8)
    ('0.0', '−Inf', '3', '1e-08')
    """
    exact = str(number)
    if isinstance(number, numpy.generic):
        number = number.item()
    if isinstance(number, complex):
        return f"({shown(number.real)} + {shown(number.imag)}j)"
    if not isinstance(number, float):
        return str(number)
    if not math.isfinite(number):
        return "NaN" if math.isnan(number) else "Inf" if number > 0 else "−Inf"
    text = f"{number:.6g}"
    if float(text) != number and float(text).is_integer():
        return exact  # full precision, because 1.0000001 is outside the domain of acos, but a rounded 1 would not be
    return text if any(mark in text for mark in ".e") else f"{text}.0"


def first_bad(numbers: Array, but: Sequence[Array] = ()) -> Index | None:
    """The first index with NaN or Inf, preferably one where the arrays ``but`` are finite."""
    array = numpy.asarray(numbers)
    if array.dtype.kind not in "fc":
        return None
    bad = ~numpy.isfinite(array)
    alone = bad.copy()
    for other in but:
        if _goes_into(numpy.shape(other), array.shape) and numpy.asarray(other).dtype.kind in "fc":
            alone &= numpy.isfinite(other)
    places = numpy.argwhere(alone if alone.any() else bad)
    return tuple(int(one) for one in places[0]) if len(places) else None


def forward(
    computed: Computation,
    part: Term | None,
    why: Mechanism | None,
    name: str,
    line: str,
    sources: Sequence[tuple[str, Array]],
) -> list[str]:
    """Return facts on the first element with NaN or Inf, in the result of a line or of the given part, and on its
    operands.

    ``sources`` are the operands to use if the parts of the line are unknown; ``line`` is the text of the line.
    """
    term = computed.term if part is None else part
    result = computed.result if term is computed.term else computed.value(term)
    if result is None or isinstance(result, tuple | slice | str):
        return []
    operands = _of_part(computed, term, sources)
    index = first_bad(result, [numbers for _, numbers in operands])
    if index is None or not operands:
        return []
    result = numpy.asarray(result)
    said = _by_operator(term, operands, index, result)
    is_elementwise = bool(said) or term.op in ELEMENTWISE or _is_elementwise(operands, result)
    said = said or _listed(operands, index, result, is_elementwise)
    found = [say("first_place", text=shorten(term.text or name), at=where(index), numbers=said)] if said else []
    found += beyond(operands, result)
    if is_elementwise or not _is_of_matrices(why, term.text or line):
        return found
    return found + [one for text, numbers in operands[:MOST] for one in condition(shorten(text), numbers, result)]


def _of_part(computed: Computation, term: Term, sources: Sequence[tuple[str, Array]]) -> Sequence[tuple[str, Array]]:
    # The operands of a part of a line, or of the whole line; or the sources, if the parts are unknown.
    is_wrong = computed.is_contradicted
    operands = [] if is_wrong else list(_operands(computed, term))
    if operands or not (is_wrong or term is computed.term):
        return operands
    return [one for one in sources if numpy.asarray(one[1]).dtype.kind in "fciu"]


def _is_of_matrices(why: Mechanism | None, text: str) -> bool:
    # Can the failure be due to a property of a matrix?
    return "linalg." in text if why is None else why.code in OF_MATRICES


def of_operation(op: str, given: Sequence[tuple[str, Array]], result: Array) -> str:
    """Return the first bad element of the result of a framework's operation, with the named operands there.

    >>> given = [("self", numpy.ones(2)), ("other", numpy.array([2.0, 0.0]))]
    >>> of_operation("div", given, numpy.array([0.5, numpy.inf]))
    ' at [1]: 1.0 / 0.0'
    """
    index = first_bad(result, [numbers for _, numbers in given])
    if index is None or not given:
        return ""
    sign = OPERATORS.get(known_as(op)) if len(given) == 2 else None
    if sign is not None and all(_goes_into(numpy.shape(numbers), result.shape) for _, numbers in given):
        said = f" {sign} ".join(shown(_at(numbers, index, result.shape)) for _, numbers in given)
    else:
        said = _listed(given, index, result, _is_elementwise(given, result))
    return f"{where(index)}: {said}"


def beyond(operands: Sequence[tuple[str, Array]], result: Array) -> list[str]:
    """Return the first index beyond the end of a table, if the result holds the table's rows at all other indices.

    >>> table, ids = numpy.ones((3, 2)), numpy.array([2, 3])
    >>> beyond([("table", table), ("ids", ids)], numpy.array([[1, 1], [numpy.nan, numpy.nan]]))
    ['the index 3 at [1] of ids is beyond table, which has 3 along dimension 0']
    """
    arrays = {name: numpy.asarray(numbers) for name, numbers in operands}
    tables = {name: one for name, one in arrays.items() if one.dtype.kind == "f" and one.ndim and one.size}
    for name, index in arrays.items():
        if index.dtype.kind not in "iu" or not index.ndim:
            continue
        for table, one in tables.items():
            for axis, size in enumerate(one.shape):
                outside = (index >= size) | (index < -size)
                if _are_rows(numpy.moveaxis(one, axis, 0), index, outside, result):
                    at = tuple(int(place) for place in numpy.argwhere(outside)[0])
                    said = {"number": shown(index[at]), "at": where(at), "name": name}
                    return [say("beyond", **said, table=table, size=size, axis=axis)]
    return []


def _are_rows(table: Array, index: Array, outside: Array, result: Array) -> bool:
    # Does the result hold the table's rows where the index is valid, and NaN where it is invalid, with some of each?
    if outside.all() or not outside.any() or result.shape != index.shape + table.shape[1:]:
        return False
    is_nothing = numpy.isnan(result[outside]).all()
    return bool(is_nothing and numpy.array_equal(result[~outside], table[index[~outside]], equal_nan=True))


def where(index: Index) -> str:
    """Return an index as `` at [1, 4]``, or an empty string for a scalar."""
    return f" at {list(index)}" if index else ""


def _operands(computed: Computation, term: Term) -> Iterator[tuple[str, Array]]:
    # Yield the operands of a term with their numbers. An operand without numbers is replaced by its own operands.
    for one in term.inputs:
        value = computed.value(one)
        if one.is_constant or isinstance(value, bool | str | slice | tuple):
            if not isinstance(one.constant, bool) and isinstance(one.constant, int | float) and one in term.args:
                yield one.text, one.constant
        elif value is not None and numpy.asarray(value).dtype.kind in "fciu":
            yield one.text, value
        elif value is None and one.op:
            yield from _operands(computed, one)


def _by_operator(term: Term, operands: Sequence[tuple[str, Array]], index: Index, result: Array) -> str:
    # The calculation with numbers as text, such as ``0.0 / 0.0``, if the term is an operator on two values.
    sign = OPERATORS.get(term.op)
    if sign is None or len(operands) != 2 or len(term.args) != 2:
        return ""
    if not all(_goes_into(numpy.shape(numbers), result.shape) for _, numbers in operands):
        return ""
    left, right = (shown(_at(numbers, index, result.shape)) for _, numbers in operands)
    return f"({left}) ** {right}" if term.op == "pow" and left.startswith("-") else f"{left} {sign} {right}"


def _listed(operands: Sequence[tuple[str, Array]], index: Index, result: Array, is_elementwise: bool) -> str:
    # List the names and numbers of the first ``SHOWN`` operands, without those whose text is the number itself.
    different = {text: numbers for text, numbers in operands if not _is_spelled(text, numbers)}
    # show a part of each operand only if all have the same shape, because the operation is then a reduction
    is_alone = len({numpy.shape(numbers) for numbers in different.values()}) == 1
    said = [_operand(text, numbers, index, result, is_elementwise, is_alone) for text, numbers in different.items()]
    return ", ".join(said[:SHOWN])


def _is_spelled(text: str, numbers: Array) -> bool:
    return (
        isinstance(numbers, int | float) and re.search(r"[A-Za-z_]{2}", text) is None and bool(re.search(r"\d", text))
    )


def _is_elementwise(operands: Sequence[tuple[str, Array]], result: Array) -> bool:
    # May the operation be elementwise? The answer is no if the same operands gave a finite element elsewhere, or if all
    # of several elements are bad.
    arrays = [numpy.asarray(numbers) for _, numbers in operands if _goes_into(numpy.shape(numbers), result.shape)]
    bad = (~numpy.isfinite(result)).reshape(-1)
    if not arrays or (bad.all() and bad.size > 1):
        return False  # if every element is bad, any operand may be the cause
    rows = [numpy.broadcast_to(one, result.shape) for one in arrays]
    table = numpy.stack([row.reshape(-1).astype(complex if row.dtype.kind == "c" else float) for row in rows], 1)
    there, elsewhere = (set(map(repr, table[places][:10_000].tolist())) for places in (bad, ~bad))
    return there.isdisjoint(elsewhere)


def _operand(text: str, numbers: Array, index: Index, result: Array, is_elementwise: bool, is_alone: bool) -> str:
    array, text = numpy.asarray(numbers), f"`{shorten(text)}`"
    if not array.shape:
        return f"{text} is {shown(array[()])}"
    lane = _lane(array, index, result)
    if lane is not None and not is_elementwise and not numpy.isinf(lane).any():
        lane = None  # of a reduction, only a row that is Inf or −Inf alone explains the row of the result
    if lane is not None or (is_elementwise and _goes_into(array.shape, result.shape)):
        if lane is None:
            return f"{text} is {shown(_at(array, index, result.shape))}"
        return f"{text} there: {_many(lane)}"
    part, place = _slice(array, index, result.shape) if is_alone else (array, ())
    has_place = part.shape == result.shape and part.size > 1 and part.dtype.kind in "fc"
    there = f", {shown(part[index])} there" if has_place and part.min() != part.max() else ""
    return f"{text}{where(place) if place else ''}: {_many(part)}{there}"


def _lane(array: Array, index: Index, result: Array) -> Array | None:
    # The operand's row at an element, if the result's whole row there is bad and the operand's row is constant.
    if array.shape != result.shape or array.shape[-1] < 2:
        return None
    row = array[index[:-1]]
    is_whole = not numpy.isfinite(result[index[:-1]]).any() and bool((row == row[0]).all())
    return row if is_whole and bool(numpy.isfinite(result).any() or result.ndim > 1) else None


def _slice(array: Array, index: Index, shape: tuple[int, ...]) -> tuple[Array, Index]:
    # Return the part of a value from which one element of a reduction was computed; the whole value if the shapes allow
    # several parts.
    ways: list[tuple[Any, ...]] = []
    for count in range(1, array.ndim + 1):
        for axes in itertools.combinations(range(array.ndim), count):
            left = tuple(size for axis, size in enumerate(array.shape) if axis not in axes)
            kept = tuple(1 if axis in axes else size for axis, size in enumerate(array.shape))
            if shape in (left, kept):
                places = list(index if shape == left else [at for axis, at in enumerate(index) if axis not in axes])
                ways.append(tuple(slice(None) if axis in axes else places.pop(0) for axis in range(array.ndim)))
    if len(ways) != 1:
        return array, ()
    return array[ways[0]], tuple(at for at in ways[0] if isinstance(at, int))


def _many(part: Array) -> str:
    # Describe a set of numbers by their count, minimum and maximum.
    numbers = part.reshape(-1)
    if numbers.size == 0:
        return say("no_numbers")
    if numbers.size == 1:
        return say("one_number", number=shown(numbers[0]))
    if (numbers == numbers[0]).all():
        return say("same_numbers", count=numbers.size, number=shown(numbers[0]))
    if numbers.dtype.kind == "c" or numpy.isnan(numbers).any():
        return say("some_numbers", count=numbers.size)
    return say("numbers_from", count=numbers.size, low=shown(numbers.min()), high=shown(numbers.max()))


def _goes_into(shape: Shape, whole: Shape) -> bool:
    # Can an array of this shape be broadcast to the shape of the whole?
    return broadcast(shape, whole) == whole


def _at(numbers: Array, index: Index, shape: tuple[int, ...]) -> Any:
    return numpy.broadcast_to(numbers, shape)[index]


def of_gradient(
    known: Evidence, wrt: int, owner: int, example: Index | None, operand: tuple[str, Array] | None
) -> list[str]:
    """Return facts with the numbers at the first bad element of a gradient that the line of ``owner`` computed.

    ``operand`` is the text and numbers of the matrix, if the operation decomposed one.
    """
    grad, came = (known.taken(known.grad_numbers(at), at, owner, example) for at in (wrt, owner))
    value, made = (known.taken(known.numbers(at), at, owner, example) for at in (wrt, owner))
    name, made_name = (known.entries[at].name for at in (wrt, owner))
    with numpy.errstate(all="ignore"), suppress(*FAILING):  # numbers whose shapes do not fit together give no fact
        said = backward(name, made_name, grad, value, came, made)
        return [*said, *equal(*operand, grad)] if said and operand is not None and operand[1] is not None else said
    return []


def backward(wrt: str, owner: str, grad: Array, value: Array, came: Array, made: Array) -> list[str]:
    """Return facts on the first bad element of a gradient: value, result and incoming gradient there, if known."""
    index = None if grad is None else first_bad(grad, [] if came is None else [came])
    if index is None:
        return []
    grad = numpy.asarray(grad)
    said = []
    for code, text, numbers in (("value_there", wrt, value), ("result_there", owner, made), ("came_there", "", came)):
        if numbers is None or numpy.asarray(numbers).dtype.kind not in "fciu":
            continue
        if _goes_into(numpy.shape(numbers), grad.shape):
            said.append(say(code, name=text, number=shown(_at(numbers, index, grad.shape))))
        elif code != "came_there":
            part, place = _part_of(numpy.asarray(numbers), index, grad.shape)
            said.append(f"{text}{where(place)}: {_many(part)}")
    return [say("first_gradient", wrt=wrt, at=where(index), number=shown(grad[index]), numbers=", ".join(said))]


def _part_of(array: Array, index: Index, shape: tuple[int, ...]) -> tuple[Array, Index]:
    # The part of a result that was computed from this element, if the shapes determine it.
    into = result_of(index, shape, array.shape)
    return (array, ()) if into is None else (numpy.asarray(array[into]), into)
