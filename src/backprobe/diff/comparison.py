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
from backprobe.diff.alignment import Match, Side
from backprobe.diff.floor import EPS, SUMS, Floor, NoiseFloor, Size, by_dtype, coarsest, eps_of, uses
from backprobe.diff.layout import Layouts
from backprobe.diff.measuring import measure
from backprobe.diff.pairs import DTYPE, NO_NUMBER, ONE_SIDED, SHAPE, STATUS, VALUE, Judged, Row
from backprobe.record.entries import Entry, GradStatus, Lost
from backprobe.record.graph import reached

PLAIN = (bool, int, float)
Step = Callable[[int], Iterable[int]]
Given = tuple[Set[int], Set[int]]


class Comparison:
    """Everything that is known of two recordings; each pair is read once for its values and once for its gradients.

    Pairs are meant by their numbers in ``pairs``. ``order`` has arguments first, then parameters, then the rest.
    ``factor`` is what gradients of the second are multiplied by, for a loss that was scaled; None where it is unknown,
    or where one recording has no gradients. ``given`` are the positions of the second's entries whose values, and of
    those whose gradients, the second program went on with as the first has them; None where it ran by itself.
    """

    def __init__(
        self,
        a: Side,
        b: Side,
        pairs: Sequence[Match],
        layouts: Layouts,
        noise: NoiseFloor | None,
        factor: float | None,
        given: Given | None = None,
    ) -> None:
        self.a, self.b, self.pairs, self.layouts, self.noise, self.factor = a, b, pairs, layouts, noise, factor
        self.given = given
        self.arrays = load_arrays(a.record.backend), load_arrays(b.record.backend)
        self.of_a = {pair.a: at for at, pair in enumerate(pairs) if not pair.is_shared}
        self.of_b = {pair.b: at for at, pair in enumerate(pairs) if not pair.is_shared}
        self.order = sorted(range(len(pairs)), key=lambda at: (not self.is_leaf(at), self.is_parameter(at), at))

    def is_leaf(self, at: int) -> bool:
        """Is it an argument or a parameter?"""
        return self.a.is_leaf(self.pairs[at].a)

    def is_parameter(self, at: int) -> bool:
        return self.a.is_parameter(self.pairs[at].a)

    def entries(self, at: int) -> tuple[Entry, Entry]:
        """Those of a pair."""
        return self.a.entries[self.pairs[at].a], self.b.entries[self.pairs[at].b]

    @cached_property
    def rows(self) -> Sequence[Row]:
        """What comparing each pair gave."""
        values = self._directions(self._value, self._summed_in_value, self._eps, VALUE)
        gradients = self._directions(self._gradient, self._summed_in_gradient, self._eps_of_gradients, "gradient")
        return [
            Row(pair, *self.entries(at), self._marked(0, pair, self._with_dtype(at, values[at])),
                self._marked(1, pair, gradients[at]))
            for at, pair in enumerate(self.pairs)
        ]  # fmt: skip

    def _marked(self, of: int, pair: Match, judged: Judged) -> Judged:
        return judged if self.given is None or pair.b not in self.given[of] else replace(judged, is_given=True)

    # one direction

    def _directions(
        self, judge: Callable[[int], Judged], summed: Callable[[int, Mapping[int, Size]], Sequence[Size]],
        eps: Sequence[float], of: str,
    ) -> list[Judged]:  # fmt: skip
        """The values of all pairs, or their gradients. All are measured first: a floor knows what is around it."""
        found = [judge(at) for at in range(len(self.pairs))]
        sizes = {at: Size.of(one.measure) for at, one in enumerate(found) if one.measure is not None}
        for at, one in enumerate(found):
            if one.measure is not None and one.floor is None:
                floor = self._floor(at, sizes[at], summed(at, sizes), eps[at], of)
                excess = floor.excess(one.measure)
                found[at] = replace(one, kind=VALUE if excess > 1 else "", excess=excess, floor=floor)
        return found

    def _floor(self, at: int, own: Size, summed: Sequence[Size], eps: float, of: str) -> Floor:
        pair = self.entries(at)
        measured = None if self.noise is None else self.noise.floor(pair[0].name, of)
        if measured is None:
            return by_dtype(eps, own, summed)
        return measured.at_least(max(eps_of(entry.dtype) for entry in pair), own)

    def _value(self, at: int) -> Judged:
        pair = self.entries(at)
        held = [entry.held for entry in pair]
        lost = next((one.reason for one in held if isinstance(one, Lost)), "")
        if lost:
            return Judged(why=lost)
        if any(entry.status is GradStatus.NOT_EXECUTED for entry in pair):
            return Judged(why=_not_executed(*pair))
        if any(entry.status is GradStatus.NOT_TENSOR for entry in pair):
            return _plain(*[_number(one, arrays) for one, arrays in zip(held, self.arrays, strict=True)])
        return self._measured(pair, held, 1.0)

    def _gradient(self, at: int) -> Judged:
        pair = self.entries(at)
        has = [entry.status is GradStatus.OK for entry in pair]
        if not any(has):
            return Judged(why="no gradient")
        if self.factor is None or self.pairs[at].is_shared:
            return Judged(why="not compared")
        if not all(has):
            return Judged(why=ONE_SIDED) if self._is_frozen_argument(at) else Judged(STATUS, math.inf)
        return self._measured(pair, [entry.held_grad for entry in pair], self.factor)

    def _is_frozen_argument(self, at: int) -> bool:
        """Is it an argument that one program does not differentiate? What it was given asked for that."""
        is_argument = self.is_leaf(at) and not self.is_parameter(at)
        return is_argument and any(entry.status is GradStatus.FROZEN for entry in self.entries(at))

    def _measured(self, pair: Sequence[Entry], tensors: Sequence[Any], factor: float) -> Judged:
        a, b = [arrays.rows(tensor) for arrays, tensor in zip(self.arrays, tensors, strict=True)]
        if a is None or b is None or not (a.holds_numbers and b.holds_numbers):
            return Judged(why="its numbers cannot be read")
        b = self.layouts.apply(pair[0].name, pair[1].name, b)
        if a.shape != b.shape:
            return Judged(SHAPE, math.inf)
        coarser = max((entry.dtype or "" for entry in pair), key=eps_of)
        found = measure(a, b, coarser, factor)
        if not found.differing and not eps_of(coarser) and not all(numpy.array_equal(*pair) for pair in together(a, b)):
            return Judged(VALUE, math.inf)  # whole numbers that double precision does not tell apart
        return Judged(measure=found, is_same=a.size > 0 and a.place == b.place)

    # what is around an entry

    def sources(self, at: int) -> set[int]:
        """The nearest pairs that one was computed from, in either recording."""
        return self._in_a(at, self.a.sources) | self._in_b(at, self.b.sources)

    def uses(self, at: int) -> set[int]:
        """The nearest pairs whose gradients go into that of one, in either recording."""
        return self._in_a(at, self._used_in_a) | self._in_b(at, self._used_in_b)

    def uses_in_first_only(self, at: int) -> set[int]:
        """Those from which nothing flows back in the second recording."""
        return self._in_a(at, self._used_in_a) - self._in_b(at, self._used_in_b)

    def _used_in_a(self, at: int) -> Iterable[int]:
        return self.a.graph.consumers[at]

    def _used_in_b(self, at: int) -> Iterable[int]:
        return self.b.graph.consumers[at]

    def _in_a(self, at: int, step: Step) -> set[int]:
        return {self.of_a[one] for one in _nearest(self.pairs[at].a, step, self.of_a)} - {at}

    def _in_b(self, at: int, step: Step) -> set[int]:
        return {self.of_b[one] for one in _nearest(self.pairs[at].b, step, self.of_b)} - {at}

    def _summed_in_value(self, at: int, sizes: Mapping[int, Size]) -> Sequence[Size]:
        is_sum = self.entries(at)[0].op in SUMS
        return [sizes[one] for one in self.sources(at) if one in sizes] if is_sum else ()

    def _summed_in_gradient(self, at: int, sizes: Mapping[int, Size]) -> Sequence[Size]:
        return uses(sizes[at], [sizes[one] for one in self.uses(at) if one in sizes])

    @cached_property
    def _eps(self) -> Sequence[float]:
        """That of the coarsest dtype that a value was computed in or from, in either recording."""
        found = [coarsest(side.entries, range(len(side.entries)), side.sources) for side in (self.a, self.b)]
        return [max(found[0][pair.a], found[1][pair.b]) for pair in self.pairs]

    @cached_property
    def _eps_of_gradients(self) -> Sequence[float]:
        """The same of a gradient, which is computed from all values on the way to the output."""
        found: dict[int, float] = {}
        for at in reversed(range(len(self.a.entries))):
            own = self._eps[self.of_a[at]] if at in self.of_a else 0.0
            found[at] = max([own, *(found.get(use, 0.0) for use in self.a.graph.consumers[at])])
        return [found[pair.a] for pair in self.pairs]

    # dtypes

    def _with_dtype(self, at: int, judged: Judged) -> Judged:
        return judged if judged.kind or not self.is_cast(at) else replace(judged, kind=DTYPE)

    def is_cast(self, at: int) -> bool:
        """Has the second another dtype, though what the value was computed from has the same ones?"""
        if not self._other_dtype(at) or self.is_leaf(at):
            return False
        a, b = self.entries(at)
        sources = self.sources(at)
        is_expected = self.noise is not None and b.dtype in self.noise.dtypes(a.name)
        return not is_expected and bool(sources) and not any(self._other_dtype(one) for one in sources)

    def _other_dtype(self, at: int) -> bool:
        a, b = (entry.dtype for entry in self.entries(at))
        return a != b and None not in (a, b) and bool(eps_of(a) or eps_of(b))


def _nearest(at: int, step: Step, matched: Mapping[int, int]) -> set[int]:
    """The nearest entries that have a partner, through those that have none."""
    return reached(step(at), lambda one: [] if one in matched else step(one)) & matched.keys()


def _not_executed(a: Entry, b: Entry) -> str:
    if a.status is b.status:
        return NO_NUMBER
    return f"not executed in the {'first' if a.status is GradStatus.NOT_EXECUTED else 'second'}"


def _number(value: Any, arrays: Any) -> Any:
    """A number as Python has it, also of a tensor with one element; else None."""
    if isinstance(value, PLAIN):
        return value
    rows = arrays.rows(value) if arrays.is_tensor(value) else None
    return rows.array().item() if rows is not None and rows.size == 1 and rows.holds_numbers else None


def _plain(a: Any, b: Any) -> Judged:
    """Two numbers of Python; what else is not a tensor, such as a text or a device, is not compared."""
    if a is None or b is None:
        return Judged(why=NO_NUMBER)
    if isinstance(a, int) and isinstance(b, int):
        return Judged(VALUE, math.inf) if a != b else Judged()
    x, y = (Rows.of(numpy.asarray(one, numpy.float64)) for one in (a, b))
    found = measure(x, y, "float32")
    floor = by_dtype(EPS["float32"], Size.of(found), ())
    return Judged(VALUE if floor.excess(found) > 1 else "", floor.excess(found), found, floor)
