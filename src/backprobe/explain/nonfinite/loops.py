"""Finds where NaN and Inf arise inside loops whose values are stacked over all steps, such as ``jax.lax.scan``.

Each step receives the results of the previous step, but no edge shows this: the edges of a step's inputs come from
outside of the loop. As stacked arrays, both input and result are bad. Step by step, NaN and Inf begin at a value whose
inputs are finite in the same step. In backward, they begin in the first bad step that backward reaches.
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
    """The bad entries of one loop, with a mask of the steps in which each is bad, in execution order."""

    bad: Mapping[int, Any]  # for each entry, a mask over the steps
    is_reversed: bool

    def at_step(self, numbers: Any, axes: Sequence[str], step: int) -> Any:
        """The numbers of a loop's value in one step; those of all steps if loops are nested."""
        return numbers.take(self.counted(step), axes.index(STEP)) if axes.count(STEP) == 1 else numbers

    def counted(self, step: int) -> int:
        """The framework's own index of a step."""
        return len(next(iter(self.bad.values()))) - 1 - step if self.is_reversed else step


def loops(known: Evidence) -> Iterator[Loop]:
    """Yield the loops with NaN or Inf in their values, including those of functions called in the body.

    A loop is left out if the numbers of such a value are not recorded.
    """
    for masks in _bad_steps(known.entries, known.bad_values, known.numbers):
        given = [mask for at, mask in masks.items() if not _is_computed(known.entries[at])]
        is_reversed = any(mask[0] and not mask[-1] for mask in given) and not any(mask[-1] for mask in given)
        yield Loop({at: mask[::-1] if is_reversed else mask for at, mask in masks.items()}, is_reversed)


@dataclass(frozen=True)
class LoopArrival:
    """The gradient of a value in a loop, at the first bad step that backward reaches.

    In the following steps the gradient may only have been passed on, and no edge shows this.
    """

    state: Badness
    step: int | None  # the framework's index; None if loops are nested
    loop: int


def arrivals(known: Evidence) -> dict[int, LoopArrival]:
    """For entries in a loop with a bad gradient, return the gradient's state at the first bad step of the loop.

    A step is bad if any of these gradients is, and the first is the one that backward reaches first.
    """
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
    # Yield a dict for each loop. It maps each bad entry, in the loop's body or in a function called there, to a mask of
    # the steps in which the entry is bad.
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
    """Return a mask of the steps in which a stacked value is bad, or None if its numbers are not recorded."""
    stacked = _stacked(numbers, axes)
    return None if stacked is None else (~numpy.isfinite(stacked)).any(axis=1)


def _stacked(numbers: Any, axes: Sequence[str]) -> Any:
    # Return one row of numbers for each step; nested loops are flattened in order.
    if numbers is None or numbers.ndim < len(axes):
        return None
    steps = [axis for axis, name in enumerate(axes) if name == STEP]
    first = numpy.moveaxis(numbers, steps, range(len(steps)))
    count = math.prod(first.shape[: len(steps)])
    return first.reshape(count, first.size // max(count, 1))


def origins(loop: Loop, known: Evidence) -> tuple[dict[int, list[int]], set[int]]:
    """Return the entries of a loop where NaN or Inf begins, with the steps, and the entries that only pass it on.

    NaN or Inf begins at an entry if all its inputs in the loop are finite in the same step, even if earlier steps were
    bad, and no bad value from outside of the loop goes into it.
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
            follows.add(at)  # passed on from the previous step, or from outside of the loop
    return begins, follows


def _is_computed(entry: Entry) -> bool:
    # Is the entry computed in a step, rather than an input of the step?
    return bool(entry.op or expression_of(entry.source))


def begun(loop: Loop, steps: Sequence[int]) -> str:
    """The words for the steps in which NaN or Inf begins, in execution order."""
    first, *others = map(loop.counted, steps)
    said = say("begins", step=first)
    return say("begins_again", begins=said, steps=listed(others)) if others else said
