"""Births inside loops whose values are recorded for all steps at once, as in ``jax.lax.scan``.

A step is given what the step before it computed, and no edge shows that: the edges into what it is given come from
outside. As wholes, both are bad. Step by step, NaN and Inf begin where the inputs of a value are finite in the same
step; in backward, in the step that it came to first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy

from backprobe.explain.nonfinite.evidence import Evidence
from backprobe.explain.nonfinite.states import Badness, of_numbers
from backprobe.explain.nonfinite.text import say
from backprobe.findings.phrasing import listed
from backprobe.record.entries import Entry
from backprobe.record.names import split
from backprobe.record.source import expression_of

STEP = "step"


@dataclass(frozen=True)
class Loop:
    """The bad entries of one loop, and which of their steps are bad, in the order in which the steps ran."""

    bad: Mapping[int, Any]  # by entry: a mask over the steps
    is_reversed: bool

    def at_step(self, numbers: Any, axes: Sequence[str], step: int) -> Any:
        """The numbers of a value of this loop in a step; those of all steps where loops are nested."""
        return numbers.take(self.counted(step), axes.index(STEP)) if axes.count(STEP) == 1 else numbers

    def counted(self, step: int) -> int:
        """A step as the framework counts them."""
        return len(next(iter(self.bad.values()))) - 1 - step if self.is_reversed else step


def loops(known: Evidence) -> Iterator[Loop]:
    """Each loop that holds NaN or Inf, with what its body calls."""
    for masks in _bad_steps(known.entries, known.bad_values, known.numbers):
        given = [mask for at, mask in masks.items() if not _is_computed(known.entries[at])]
        is_reversed = any(mask[0] and not mask[-1] for mask in given) and not any(mask[-1] for mask in given)
        yield Loop({at: mask[::-1] if is_reversed else mask for at, mask in masks.items()}, is_reversed)


@dataclass(frozen=True)
class LoopArrival:
    """The gradient of a value in a loop, in the step that backward came to first of those with NaN or Inf.

    In the steps that it came to later, they may be what that step handed on, which no edge shows.
    """

    state: Badness
    step: int | None  # as the framework counts them; None where loops are nested
    loop: int


def arrivals(known: Evidence) -> dict[int, LoopArrival]:
    """By entry, for each loop with a gradient that is not finite."""
    found: dict[int, LoopArrival] = {}
    for nth, masks in enumerate(_bad_steps(known.entries, known.bad_grads, known.grad_numbers)):
        anywhere = numpy.any(list(masks.values()), axis=0)
        steps = numpy.flatnonzero(anywhere)
        is_reversed = bool(anywhere[-1] and not anywhere[0])
        step = int(steps[0] if is_reversed else steps[-1])
        for at in masks:
            state = of_numbers(_stacked(known.grad_numbers(at), known.entries[at].axes)[step])
            found[at] = LoopArrival(state, step if known.entries[at].axes.count(STEP) == 1 else None, nth)
    return found


def _bad_steps(
    entries: Sequence[Entry], bad: Collection[int], numbers: Callable[[int], Any]
) -> Iterator[dict[int, Any]]:
    # For each loop, and what its body calls, the entries among the bad ones with a mask over its steps.
    found: dict[tuple[str, tuple[str, ...]], list[int]] = {}
    inside = [at for at in sorted(bad) if STEP in entries[at].axes]
    scopes = {split(entries[at].name)[0] for at in inside}
    for at in inside:
        body = min(one for one in scopes if f"{split(entries[at].name)[0]}/".startswith(f"{one}/"))
        found.setdefault((body, entries[at].axes), []).append(at)
    for (_, axes), places in found.items():
        masks = {at: by_step(numbers(at), axes) for at in places}
        if all(mask is not None for mask in masks.values()) and len({len(mask) for mask in masks.values()}) == 1:
            yield masks


def by_step(numbers: Any, axes: Sequence[str]) -> Any:
    """Which steps of a stacked value are bad; None where its numbers are not held."""
    stacked = _stacked(numbers, axes)
    return None if stacked is None else (~numpy.isfinite(stacked)).any(axis=1)


def _stacked(numbers: Any, axes: Sequence[str]) -> Any:
    # A row of numbers for each step: those of nested loops one after the other.
    if numbers is None or numbers.ndim < len(axes):
        return None
    steps = [axis for axis, name in enumerate(axes) if name == STEP]
    first = numpy.moveaxis(numbers, steps, range(len(steps)))
    count = math.prod(first.shape[: len(steps)])
    return first.reshape(count, first.size // max(count, 1))


def origins(loop: Loop, known: Evidence) -> tuple[dict[int, list[int]], set[int]]:
    """The entries of a loop in which NaN or Inf begins, with the steps, and those that have it from others.

    It begins where all that an entry was computed from is finite in the same step, whatever was bad in steps before.
    """
    begins, follows = {}, set()
    elsewhere = known.bad_values - loop.bad.keys()
    takers = {taker for at in loop.bad for taker in (at, *known.consumers[at])}
    outside = {one for taker in takers for one in known.direct[taker] if one in elsewhere and one < taker}
    first = min(int(numpy.argmax(mask)) for mask in loop.bad.values())  # the first step in which anything is bad
    for at, mask in loop.bad.items():
        sources = known.direct[at] if _is_computed(known.entries[at]) else ()
        inside = [loop.bad[one] for one in sources if one in loop.bad]
        own = mask & ~numpy.any(inside, axis=0) if inside else mask
        if sources and elsewhere.isdisjoint(sources) and own.any():
            begins[at] = numpy.flatnonzero(own).tolist()
        elif not sources and (not mask[first] or outside):
            follows.add(at)  # given by the step before, or from outside of the loop
    return begins, follows


def _is_computed(entry: Entry) -> bool:
    # Is it computed in a step, and not what the step was given?
    return bool(entry.op or expression_of(entry.source))


def begun(loop: Loop, steps: Sequence[int]) -> str:
    """In which steps of a loop something begins, in the order in which they ran."""
    first, *others = map(loop.counted, steps)
    said = say("begins", step=first)
    return say("begins_again", begins=said, steps=listed(others)) if others else said
