"""Follows the operations between two gradients of the same function in a JAX program.

JAX has no optimizer object to observe: operations compute new parameters from old ones. Each operation is classified by
its numbers: it adds something, or it keeps the numbers, as a conversion does. If something nonzero was added, but the
next gradient is computed at exactly the same numbers, the addition was below the rounding of the dtype.

A program that also combines new and old numbers, as in a compensated sum, may recover the lost part. Then nothing is
reported.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import jax
import jax.numpy as jnp
import numpy

from backprobe.backends.jax import private
from backprobe.backends.temporarily import temporarily
from backprobe.backends.useless import update_without_effect
from backprobe.backends.useless.steps import LEAST, SampledStep, SampledSteps, spread
from backprobe.backends.user_lines import Place, source_at, users_place
from backprobe.record.reasons import Note

LONGEST, MOST = 16, 10_000
"""The most operations between an array and its next version, and the most arrays that are followed."""
GROWN = 1.5
"""An update counts as growing, as in a warm-up, if it is at least this factor larger."""


@dataclass(frozen=True)
class RanOperation:
    """An operation that ran on the followed array and other operands, and the line that called it."""

    primitive: Any
    params: Mapping[str, Any]
    given: Sequence[Any]
    at: int  # the place of the followed array among the inputs
    made: Any
    place: Place | None

    def on(self, array: Any) -> Any:
        """Return the result of the operation if ``array`` replaces the followed array."""
        given = [array if place == self.at else one for place, one in enumerate(self.given)]
        return self.primitive.bind(*given, **self.params)


@dataclass(frozen=True)
class Followed:
    """An array at which the program differentiated a function, and the operations that ran on it since."""

    origin: Any
    held: Any
    ran: tuple[RanOperation, ...] = ()


@dataclass(frozen=True)
class SmallUpdate(SampledStep):
    """The update between two successive gradients of a function. ``rate`` is the update's size relative to the
    gradient.
    """

    size: float = 0.0  # the norm of the update
    names: tuple[str, ...] = ()  # the names of the updated arrays


class Function:
    """A function that is differentiated repeatedly. Like an optimizer, it has steps."""

    def __init__(self) -> None:
        self.arrays: Mapping[str, Any] = {}  # the arguments of the last gradient, by name
        self.gradients: Mapping[str, Any] = {}


class JaxSteps(SampledSteps):
    """The updates between successive gradients, for each function."""

    def __init__(self) -> None:
        super().__init__()
        self.functions: dict[Any, Function] = {}
        self.known: dict[int, Followed] = {}  # the key is the id of the array
        self.compared: set[int] = set()  # ids of arrays that an operation combined with their own later versions
        self.is_off = False

    def listening(self) -> AbstractContextManager[None]:
        """Inside this context, operations outside of transformations are observed."""
        return private.hearing_evaluations(self._ran)

    def resting(self) -> AbstractContextManager[None]:
        """Operations inside this context are not steps of the program, and are ignored."""
        return temporarily(self, is_off=True)

    def _ran(self, primitive: Any, given: Sequence[Any], params: Mapping[str, Any], made: Any) -> None:
        if self.is_off or not self.known or len(self.known) > MOST or not _is_floating(made):
            return
        places = [(at, known) for at, one in enumerate(given) if (known := self._of(one)) is not None]
        places = [(at, known) for at, known in places if known.origin.shape == made.shape]
        if not places:
            return
        with self.resting():
            self.compared.update(_compared([known for _, known in places]))
            if id(made) in self.known:
                return
            at, known = max(places, key=lambda one: (_is_left(given[one[0]], made), len(one[1].ran)))
            if len(known.ran) < LONGEST:
                ran = RanOperation(primitive, params, given, at, made, users_place(sys._getframe(1)))
                self.known[id(made)] = Followed(known.origin, made, (*known.ran, ran))

    def _of(self, array: Any) -> Followed | None:
        known = self.known.get(id(array))
        return known if known is not None and known.held is array else None

    def gradient(self, function: Any, arrays: Mapping[str, Any], gradients: Mapping[str, Any]) -> None:
        """Called when the program has differentiated a function at these arrays. After the first error, nothing is
        followed any more.
        """
        try:
            with self.resting():
                self._gradient(function, arrays, gradients)
        except Exception:  # noqa: BLE001  # the program goes on, and no more is said of it
            self.is_off = True
            self.known.clear()
            self.steps.clear()

    def _gradient(self, function: Any, arrays: Mapping[str, Any], gradients: Mapping[str, Any]) -> None:
        one = self.functions.setdefault(function, Function())
        if (update := self._update(one, arrays)) is not None:
            self.made(one, update)
        gone = {id(array) for array in one.arrays.values()}
        self.known = {at: known for at, known in self.known.items() if id(known.origin) not in gone}
        one.arrays = {name: array for name, array in arrays.items() if _is_floating(array)}
        one.gradients = gradients
        self.compared -= gone
        self.known |= {id(array): Followed(array, array) for array in one.arrays.values()}

    def _update(self, one: Function, arrays: Mapping[str, Any]) -> SmallUpdate | None:
        # Compare the arrays of a new gradient with those of the previous gradient, which an optimizer may have updated
        # since. Return the update; None if it is unknown, or if there was no previous gradient.
        pairs = {name: (old, arrays[name]) for name, old in one.arrays.items() if name in arrays}
        pairs = {
            name: (old, new)
            for name, (old, new) in pairs.items()
            if old is not new and old.shape == new.shape and name in one.gradients
        }
        live = {name: _sample(one.gradients[name]) != 0 for name in pairs}
        moved = {name: (_sample(old) != _sample(new)) & live[name] for name, (old, new) in pairs.items()}
        count = sum(int(each.sum()) for each in live.values())
        total = sum(int(each.sum()) for each in moved.values())
        if not count:
            return None
        if total >= LEAST * count:
            return SmallUpdate(0.0, total, count, "", None)
        followed = {name: self._of(new) for name, (_, new) in pairs.items()}
        if not all(known is not None and known.origin is pairs[name][0] for name, known in followed.items()):
            return None
        if not self.compared.isdisjoint(id(old) for old, _ in pairs.values()):
            return None
        added = {name: _added(known) for name, known in followed.items() if known is not None}
        if any(each is None for each in added.values()):
            return None
        known_added = {name: each for name, each in added.items() if each is not None}
        return self._lost(one, pairs, known_added, live, moved)

    def _lost(
        self,
        one: Function,
        pairs: Mapping[str, Any],
        added: Mapping[str, tuple[Any, Place | None]],
        live: Mapping[str, Any],
        moved: Mapping[str, Any],
    ) -> SmallUpdate | None:
        # Return the update of the arrays to which something was added. It has the counts of their numbers, and of those
        # that changed, because rounding has left most unchanged. Return None if nothing was added to any array.
        there = {name: live[name] & (_sample(more) != 0) for name, (more, _) in added.items()}
        names = [name for name, each in there.items() if each.any()]
        if not names:
            return None
        count = sum(int(there[name].sum()) for name in names)
        total = sum(int((moved[name] & there[name]).sum()) for name in names)
        size = math.hypot(*(_norm(added[name][0]) for name in names))
        beside = math.hypot(*(_norm(one.gradients[name]) for name in names))
        place = added[names[0]][1]
        return SmallUpdate(
            size / beside,
            total,
            count,
            str(pairs[names[0]][0].dtype),
            None if place is None else source_at(*place),
            size,
            tuple(names),
        )

    def grows(self, steps: Sequence[Any]) -> bool:
        first, last = steps[0], steps[-1]
        return bool(last.rate > GROWN * first.rate or last.size > GROWN * first.size)

    def is_open(self, function: Any) -> bool:
        """Has the function had exactly one step so far, and did that step have no effect?"""
        steps = self.steps.get(self.functions.get(function), ())
        return len(steps) == 1 and steps[0].has_no_effect

    def notes_on(self, function: Any) -> list[Note]:
        """Return the note on the steps of a function without effect, if there is one."""
        own = self.functions.get(function)
        found = [step for one, step in self.without_effect() if one is own and isinstance(step, SmallUpdate)]
        return [update_without_effect(step.names, step.dtype, step.share, step.at) for step in found]


def _compared(given: Sequence[Followed]) -> Iterator[int]:
    # Yield the ids of arrays whose old and new versions, with almost equal numbers, are inputs of the same operation.
    for one, other in combinations(given, 2):
        is_of_one = one.origin is other.origin and one.held is not other.held
        if is_of_one and all(_is_left(each.origin, each.held) for each in (one, other)):
            yield id(one.origin)


def _added(known: Followed) -> tuple[Any, Place | None] | None:
    # Return the sum of what was added to an array, and the first line that added something. Return None if any other
    # operation changed the array.
    total, place = numpy.zeros(known.origin.shape), None
    for ran in known.ran:
        before = ran.given[ran.at]
        more = ran.on(jnp.zeros_like(before))
        if _wide(more).any():
            if not _is_twice(_wide(ran.on(jnp.asarray(more, before.dtype))), _wide(more)):
                if not _is_left(before, ran.made):
                    return None
                continue
            total = total + _wide(more)
            place = place or ran.place
        elif not _is_left(before, ran.made):
            return None
    return total, place


def _is_twice(one: Any, other: Any) -> bool:
    # Is one result twice the other? If an operation adds a number, twice the number gives twice the change.
    return bool((abs(one - 2 * other) <= 0.05 * abs(other)).mean() >= 1 - LEAST)


def _is_left(before: Any, made: Any) -> bool:
    # Are the numbers unchanged, within the rounding of the coarser dtype?
    unit = max(float(jnp.finfo(one.dtype).eps) for one in (before, made))
    old, new = _sample(before).astype(numpy.float64), _sample(made).astype(numpy.float64)
    return bool((abs(old - new) <= unit * abs(old)).mean() >= 1 - LEAST)


def _is_floating(array: Any) -> bool:
    return (
        isinstance(array, jax.Array)
        and not isinstance(array, jax.core.Tracer)
        and bool(jnp.issubdtype(array.dtype, jnp.floating))
    )


def _wide(array: Any) -> Any:
    return numpy.asarray(array).astype(numpy.float64)


def _sample(array: Any) -> Any:
    # Return some of the elements, spread over the whole array.
    return numpy.asarray(array).reshape(-1)[spread(array.size)]


def _norm(array: Any) -> float:
    return float(numpy.linalg.norm(_wide(array).reshape(-1)))
