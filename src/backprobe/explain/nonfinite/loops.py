"""Births inside loops whose values are recorded for all steps at once, as in ``jax.lax.scan``.

A step receives what the step before it computed, and no edge shows that: as wholes, both are bad. Step by step, NaN and
Inf begin where the inputs of a value are finite in the same step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy

from backprobe.explain.nonfinite.evidence import Evidence
from backprobe.explain.nonfinite.text import say
from backprobe.findings.phrasing import listed
from backprobe.record.names import split

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


def loops(known: Evidence, is_given: Callable[[int], bool]) -> Iterator[Loop]:
    """Each loop that holds NaN or Inf, with what its body calls; ``is_given`` tells the values that steps are given."""
    entries = known.entries
    found: dict[tuple[str, tuple[str, ...]], list[int]] = {}
    bad = [at for at in sorted(known.bad_values) if STEP in entries[at].axes]
    scopes = {split(entries[at].name)[0] for at in bad}
    for at in bad:
        body = min(one for one in scopes if f"{split(entries[at].name)[0]}/".startswith(f"{one}/"))
        found.setdefault((body, entries[at].axes), []).append(at)
    for (_, axes), places in found.items():
        masks = {at: _by_step(known.numbers(at), axes) for at in places}
        if any(mask is None for mask in masks.values()) or len({len(mask) for mask in masks.values()}) != 1:
            continue
        given = [masks[at] for at in places if is_given(at)]
        is_reversed = any(mask[0] and not mask[-1] for mask in given) and not any(mask[-1] for mask in given)
        yield Loop({at: mask[::-1] if is_reversed else mask for at, mask in masks.items()}, is_reversed)


def _by_step(numbers: Any, axes: Sequence[str]) -> Any:
    """Which steps of a stacked value are bad: those of nested loops one after the other."""
    if numbers is None or numbers.ndim < len(axes):
        return None
    others = tuple(axis for axis in range(numbers.ndim) if axis >= len(axes) or axes[axis] != STEP)
    return (~numpy.isfinite(numbers)).any(axis=others).reshape(-1)


def origins(loop: Loop, known: Evidence) -> tuple[dict[int, list[int]], set[int]]:
    """The entries of a loop in which NaN or Inf begins, with the steps, and those that have it from others.

    It begins where all that an entry was computed from is finite in the same step, whatever was bad in steps before.
    """
    begins, follows = {}, set()
    elsewhere = known.bad_values - loop.bad.keys()
    outside = {
        one for at in loop.bad for consumer in known.consumers[at] for one in known.direct[consumer]
        if one in elsewhere and one < consumer
    }  # fmt: skip
    first = min(int(numpy.argmax(mask)) for mask in loop.bad.values())  # the first step in which anything is bad
    for at, mask in loop.bad.items():
        sources = known.direct[at]
        inside = [loop.bad[one] for one in sources if one in loop.bad]
        own = mask & ~numpy.any(inside, axis=0) if inside else mask
        if sources and elsewhere.isdisjoint(sources) and own.any():
            begins[at] = numpy.flatnonzero(own).tolist()
        elif not sources and (not mask[first] or outside):
            follows.add(at)  # given by the step before, or from outside of the loop
    return begins, follows


def begun(loop: Loop, steps: Sequence[int]) -> str:
    """In which steps of a loop something begins, in the order in which they ran."""
    first, *others = map(loop.counted, steps)
    said = say("begins", step=first)
    return say("begins_again", begins=said, steps=listed(others)) if others else said
