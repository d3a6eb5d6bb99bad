"""Two recordings side by side: each pair of entries with the errors of its value and gradient, and their floors."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy

from backprobe.backends.discover import load_arrays
from backprobe.backends.rows import Rows, together
from backprobe.diff.arranging import AS_IT_IS
from backprobe.diff.floor import EPS, SUMS, Floor, Measured, NoiseFloor, Size, by_dtype, coarsest, eps_of, uses
from backprobe.diff.matches import Match
from backprobe.diff.measure import Measure
from backprobe.diff.measuring import measure
from backprobe.diff.orders import Orders
from backprobe.diff.pairs import DTYPE, NO_NUMBER, ONE_SIDED, SHAPE, STATUS, VALUE, JudgedNumbers, Row
from backprobe.diff.rounding import by_rounding
from backprobe.diff.side import Side
from backprobe.record.entries import Entry, GradStatus
from backprobe.record.graph import reached
from backprobe.record.held import Lost

PLAIN = (bool, int, float)
Step = Callable[[int], Iterable[int]]
Given = tuple[Set[int], Set[int]]


class Comparison:
    """Two recordings, their pairs of partners, and the results of comparing each pair.

    Pairs are referred to by their index in ``pairs``. ``order`` lists arguments first, then parameters, then the rest.
    ``factor`` multiplies the gradients of the second recording, to undo a scaled loss. It is None if unknown, or if one
    recording has no gradients. ``given`` are two sets of positions in the second recording: entries whose values, and
    entries whose gradients, were replaced by those of the first recording. It is None if the second program ran by
    itself.
    """

    def __init__(
        self,
        a: Side,
        b: Side,
        pairs: Sequence[Match],
        orders: Orders,
        noise: NoiseFloor | None,
        factor: float | None,
        given: Given | None = None,
    ) -> None:
        self.a, self.b, self.pairs, self.orders, self.noise, self.factor = a, b, pairs, orders, noise, factor
        self.given = given
        self.arrays = load_arrays(a.record.backend), load_arrays(b.record.backend)
        self.all_of_a = _by_position(pairs, lambda pair: pair.a)
        self.all_of_b = _by_position(pairs, lambda pair: pair.b)
        self.values_a = _with_shared(self.all_of_a, pairs, lambda pair: pair.a)
        self.values_b = _with_shared(self.all_of_b, pairs, lambda pair: pair.b)
        self.of_a = {position: each[0] for position, each in self.all_of_a.items()}
        self.of_b = {position: each[0] for position, each in self.all_of_b.items()}
        self.order = sorted(range(len(pairs)), key=lambda at: (not self.is_leaf(at), self.is_parameter(at), at))

    def is_leaf(self, at: int) -> bool:
        """Is the pair an argument or a parameter?"""
        return self.a.graph.is_given(self.pairs[at].a)

    def is_parameter(self, at: int) -> bool:
        return self.pairs[at].a in self.a.graph.parameters

    def entries(self, at: int) -> tuple[Entry, Entry]:
        """The two entries of a pair."""
        return self.a.entries[self.pairs[at].a], self.b.entries[self.pairs[at].b]

    @cached_property
    def rows(self) -> Sequence[Row]:
        """The result of comparing each pair."""
        values = self._directions(self._value, self._summed_in_value, self._eps, VALUE)
        gradients = self._directions(self._gradient, self._summed_in_gradient, self._eps_of_gradients, "gradient")
        return [
            Row(
                pair,
                *self.entries(at),
                self._marked(0, pair, self._with_dtype(at, values[at])),
                self._marked(1, pair, gradients[at]),
            )
            for at, pair in enumerate(self.pairs)
        ]

    def _marked(self, of: int, pair: Match, judged: JudgedNumbers) -> JudgedNumbers:
        return judged if self.given is None or pair.b not in self.given[of] else replace(judged, is_given=True)

    # Methods for values or gradients.

    def _directions(
        self,
        judge: Callable[[int], JudgedNumbers],
        summed: Callable[[int, Mapping[int, Size]], Sequence[Size]],
        eps: Sequence[float],
        of: str,
    ) -> list[JudgedNumbers]:
        # Compare the values of all pairs, or their gradients. All pairs are measured before any floor is computed,
        # because a floor depends on surrounding entries.
        found = [judge(at) for at in range(len(self.pairs))]
        sizes = {at: Size.of(one.measure) for at, one in enumerate(found) if one.measure is not None}
        for at, one in enumerate(found):
            if one.measure is not None and one.floor is None:
                floor = self._floor(at, sizes[at], summed(at, sizes), eps[at], of)
                is_alone = of == VALUE and one.measure.differing > 0 and self._is_from_equal(at, found)
                if is_alone and not isinstance(floor, Measured):
                    floor = self._by_rounding(at, floor, eps[at], sizes)
                excess = floor.excess(one.measure)
                kind = VALUE if excess > 1 else ""
                found[at] = replace(one, kind=kind, excess=excess, floor=floor, is_from_equal=is_alone)
        return found

    def _is_from_equal(self, at: int, found: Sequence[JudgedNumbers]) -> bool:
        # Does a value have inputs, and are all of them, in both recordings, bitwise equal or taken from the first
        # recording? False for arguments and parameters.
        pair, equal = self.pairs[at], set()
        for side, position, numbers in ((self.a, pair.a, self.values_a), (self.b, pair.b, self.values_b)):
            indirect = {one.at for one in side.entries[position].indirect}
            for source in side.graph.sources(position) | indirect:
                equal |= {found[one].is_equal or self._is_given(one) for one in numbers.get(source, ())} or {False}
        return not self.is_leaf(at) and equal == {True}

    def _is_given(self, at: int) -> bool:
        # Was the value in the second program replaced by the value of the first recording?
        return self.given is not None and self.pairs[at].b in self.given[0]

    def _by_rounding(self, at: int, floor: Floor, eps: float, sizes: Mapping[int, Size]) -> Floor:
        inputs = [one for one in self.sources(at) if one in sizes and eps_of(self.entries(one)[0].dtype)]
        shapes = [self.entries(one)[0].shape or () for one in (at, *inputs)]
        return by_rounding(floor, eps, sizes[at], [sizes[one] for one in inputs], shapes)

    def _floor(self, at: int, own: Size, summed: Sequence[Size], eps: float, of: str) -> Floor:
        pair = self.entries(at)
        measured = None if self.noise is None else self.noise.floor(pair[0].name, of)
        if measured is None:
            return by_dtype(eps, own, summed)
        return measured.at_least(max(eps_of(entry.dtype) for entry in pair), own)

    def _value(self, at: int) -> JudgedNumbers:
        pair = self.entries(at)
        held = [entry.held for entry in pair]
        lost = next((one.reason for one in held if isinstance(one, Lost)), "")
        if lost:
            return JudgedNumbers(why=lost)
        if any(entry.has_no_value for entry in pair):
            return JudgedNumbers(why=_not_executed(*pair))
        if any(entry.status is GradStatus.NOT_TENSOR for entry in pair):
            return _plain(*[_number(one, arrays) for one, arrays in zip(held, self.arrays, strict=True)])
        return self._measured(at, self._added(at, held), 1.0)

    def _added(self, at: int, held: Sequence[Any]) -> Sequence[Any]:
        # The two values of a pair; if a value is compared as part of a sum, return the sum.
        found = list(held)
        for number, (side, reading) in enumerate(zip((self.a, self.b), self.pairs[at].readings, strict=True)):
            for other in reading.added:
                both = [self.arrays[number].rows(one) for one in (found[number], side.entries[other].held)]
                found[number] = None if None in both else sum(one.array() for one in both if one is not None)
        return found

    def _gradient(self, at: int) -> JudgedNumbers:
        pair = self.entries(at)
        has = [entry.status is GradStatus.OK for entry in pair]
        if not any(has):
            return JudgedNumbers(why="no gradient")
        if self.factor is None or self.pairs[at].is_shared:
            return JudgedNumbers(why="not compared")
        if not all(has):
            return JudgedNumbers(why=ONE_SIDED) if self._is_frozen_argument(at) else JudgedNumbers(STATUS, math.inf)
        return self._measured(at, [entry.held_grad for entry in pair], self.factor)

    def _is_frozen_argument(self, at: int) -> bool:
        # Is the pair an argument that only one program differentiates? This is the caller's choice, not a difference.
        is_argument = self.is_leaf(at) and not self.is_parameter(at)
        return is_argument and any(entry.status is GradStatus.FROZEN for entry in self.entries(at))

    def rows_of(self, at: int, tensors: Sequence[Any]) -> tuple[Rows, Rows] | None:
        """The two arrays to compare, the second arranged like the first; None if one cannot be read."""
        rows = self.read(at, tensors)
        if rows is None:
            return None
        return self.orders.both(self.pairs[at], self.entries(at), is_parameter=self.is_parameter(at), rows=rows)

    def read(self, at: int, tensors: Sequence[Any]) -> tuple[Rows, Rows] | None:
        """The two arrays of a pair as they are stored; None if one cannot be read."""
        a, b = [_rows(arrays, tensor) for arrays, tensor in zip(self.arrays, tensors, strict=True)]
        if a is None or b is None or not (a.holds_numbers and b.holds_numbers):
            return None
        return a, b

    def as_in_second(self, at: int, array: Any) -> Any:
        """Return an array of the first recording in the layout of the second; None for None."""
        pair = self.entries(at)
        layout = self.orders.layouts.of(pair[0].name, pair[1].name, pair[1].shape or ())
        arrangement = layout or self.orders.chosen.get(self.pairs[at], AS_IT_IS)
        return None if array is None else arrangement.undone(array, pair[1].shape or ())

    def held(self, at: int, direction: str) -> Sequence[Any]:
        """The two values of a pair, or its two gradients."""
        pair = self.entries(at)
        return (
            self._added(at, [one.held for one in pair])
            if direction == "forward"
            else [one.grad_or_none for one in pair]
        )

    def _measured(self, at: int, tensors: Sequence[Any], factor: float) -> JudgedNumbers:
        pair, rows = self.entries(at), self.rows_of(at, tensors)
        if rows is None:
            return JudgedNumbers(why="its numbers cannot be read")
        a, b = rows
        if a.shape != b.shape:
            return JudgedNumbers(SHAPE, math.inf)
        coarser = max((entry.dtype or "" for entry in pair), key=eps_of)
        found = measure(a, b, coarser, factor)
        if not found.differing and not eps_of(coarser) and not all(numpy.array_equal(*pair) for pair in together(a, b)):
            return JudgedNumbers(VALUE, math.inf)  # different integers that are equal in double precision
        return JudgedNumbers(measure=found, is_same=a.size > 0 and a.place == b.place)

    # Methods for the neighbours of an entry.

    def sources(self, at: int) -> set[int]:
        """The nearest pairs from which a pair was computed, in either recording."""
        pair = self.pairs[at]
        own, others = (
            _partners(place, side.graph.sources, found)
            for side, place, found in ((self.a, pair.a, self.values_a), (self.b, pair.b, self.values_b))
        )
        return (own | others) - {at}

    def uses(self, at: int) -> set[int]:
        """The nearest pairs whose gradients flow into a pair's gradient, in either recording."""
        return self._used_in_a(at) | self._used_in_b(at)

    def uses_in_first_only(self, at: int) -> set[int]:
        """The uses of a pair that exist only in the first recording, so that only there a gradient flows back from
        them.
        """
        return self._used_in_a(at) - self._used_in_b(at)

    def _used_in_a(self, at: int) -> set[int]:
        return self._in_a(at, self.a.graph.consumers.__getitem__)

    def _used_in_b(self, at: int) -> set[int]:
        return self._in_b(at, self.b.graph.consumers.__getitem__)

    def _in_a(self, at: int, step: Step) -> set[int]:
        return _partners(self.pairs[at].a, step, self.all_of_a) - {at}

    def _in_b(self, at: int, step: Step) -> set[int]:
        return _partners(self.pairs[at].b, step, self.all_of_b) - {at}

    def _summed_in_value(self, at: int, sizes: Mapping[int, Size]) -> Sequence[Size]:
        is_sum = self.entries(at)[0].op in SUMS
        return [sizes[one] for one in self.sources(at) if one in sizes] if is_sum else ()

    def _summed_in_gradient(self, at: int, sizes: Mapping[int, Size]) -> Sequence[Size]:
        return uses(sizes[at], [sizes[one] for one in self.uses(at) if one in sizes])

    @cached_property
    def _eps(self) -> Sequence[float]:
        # The eps of the coarsest dtype in the computation of each value, in either recording.
        found = [coarsest(side.entries, range(len(side.entries)), side.graph.sources) for side in (self.a, self.b)]
        return [
            0.0 if self._is_whole(at) else max(found[0][pair.a], found[1][pair.b]) for at, pair in enumerate(self.pairs)
        ]

    def _is_whole(self, at: int) -> bool:
        # Are both values whole numbers or truth values, which are equal or not?
        pair = self.entries(at)
        return not any(one.status is GradStatus.NOT_TENSOR or eps_of(one.dtype) for one in pair)

    def agrees(self, at: int, measure: Measure) -> bool:
        """Would a pair with these errors of its value count as equal?"""
        return by_dtype(self._eps[at], Size.of(measure), ()).excess(measure) <= 1

    @cached_property
    def _eps_of_gradients(self) -> Sequence[float]:
        # For each gradient, the eps of the coarsest dtype among the values that the first recording computes from the
        # entry, and the entry itself.
        found: dict[int, float] = {}
        for at in reversed(range(len(self.a.entries))):
            own = self._eps[self.of_a[at]] if at in self.of_a else 0.0
            found[at] = max([own, *(found.get(use, 0.0) for use in self.a.graph.consumers[at])])
        return [found[pair.a] for pair in self.pairs]

    def _with_dtype(self, at: int, judged: JudgedNumbers) -> JudgedNumbers:
        return judged if judged.kind or not self.is_cast(at) else replace(judged, kind=DTYPE)

    def is_cast(self, at: int) -> bool:
        """Does the second value have another dtype, although the inputs have equal dtypes?

        False for arguments, parameters and values without inputs, and for a dtype that the value also has in a run of
        ``noise``.
        """
        if not self._other_dtype(at) or self.is_leaf(at):
            return False
        a, b = self.entries(at)
        sources = self.sources(at)
        is_expected = self.noise is not None and b.dtype in self.noise.dtypes(a.name)
        return not is_expected and bool(sources) and not any(self._other_dtype(one) for one in sources)

    def _other_dtype(self, at: int) -> bool:
        a, b = (entry.dtype for entry in self.entries(at))
        return a != b and None not in (a, b) and bool(eps_of(a) or eps_of(b))


def _by_position(pairs: Sequence[Match], position: Callable[[Match], int]) -> Mapping[int, Sequence[int]]:
    # For each entry, the indices of its pairs that are not shared; several if the entry is compared in parts.
    found: dict[int, list[int]] = {}
    for at, pair in enumerate(pairs):
        if not pair.is_shared:
            found.setdefault(position(pair), []).append(at)
    return found


def _with_shared(
    found: Mapping[int, Sequence[int]], pairs: Sequence[Match], position: Callable[[Match], int]
) -> Mapping[int, Sequence[int]]:
    # For each entry, the indices of its pairs as in ``found``; if it has none there, the indices of its shared pairs,
    # whose values are compared and whose gradients are not.
    shared: dict[int, list[int]] = {}
    for at, pair in enumerate(pairs):
        if pair.is_shared and position(pair) not in found:
            shared.setdefault(position(pair), []).append(at)
    return {**found, **shared}


def _rows(arrays: Any, tensor: Any) -> Rows | None:
    # The rows of a tensor, or of a sum that is already an array.
    if isinstance(tensor, numpy.ndarray):
        return Rows.of(tensor)
    found: Rows | None = arrays.rows(tensor)
    return found


def _partners(at: int, step: Step, matched: Mapping[int, Sequence[int]]) -> set[int]:
    # The pairs of the nearest entries with a partner, skipping entries without one.
    nearest = reached(step(at), lambda one: [] if one in matched else step(one)) & matched.keys()
    return {pair for one in nearest for pair in matched[one]}


def _not_executed(a: Entry, b: Entry) -> str:
    if a.has_no_value and b.has_no_value:
        return NO_NUMBER
    return f"not executed in the {'first' if a.has_no_value else 'second'}"


def _number(value: Any, arrays: Any) -> Any:
    # Return a Python number, also from a tensor with one element; None for anything else.
    if isinstance(value, PLAIN):
        return value
    rows = arrays.rows(value) if arrays.is_tensor(value) else None
    return rows.array().item() if rows is not None and rows.size == 1 and rows.holds_numbers else None


def _plain(a: Any, b: Any) -> JudgedNumbers:
    # Compare two Python numbers. Other values that are not tensors, such as strings, are not compared.
    if a is None or b is None:
        return JudgedNumbers(why=NO_NUMBER)
    if isinstance(a, int) and isinstance(b, int):
        return JudgedNumbers(VALUE, math.inf) if a != b else JudgedNumbers()
    x, y = (Rows.of(numpy.asarray(one, numpy.float64)) for one in (a, b))
    found = measure(x, y, "float32")
    floor = by_dtype(EPS["float32"], Size.of(found), ())
    return JudgedNumbers(VALUE if floor.excess(found) > 1 else "", floor.excess(found), found, floor)
