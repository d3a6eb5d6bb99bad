"""Operations that let no gradient through, with the user's line that ran each: why a tape gives None."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import tensorflow as tf

from backprobe.backends.framework_code import CodeOf
from backprobe.backends.tensorflow import private
from backprobe.backends.user_lines import callers, source_at, users_frames
from backprobe.record.none_gradients import CutBy
from backprobe.record.source import Source

NOT_OF_NUMBERS = frozenset(
    {
        "Shape",
        "ShapeN",
        "Size",
        "Rank",
        "ZerosLike",
        "OnesLike",
        "BroadcastGradientArgs",
        "BroadcastArgs",
    }
)
"""Operations whose results do not depend on the numbers that they are given."""
ZERO = frozenset({"Sign"})
"""Operations that tapes follow, and whose derivative is 0 everywhere."""
CHECKPOINT = CodeOf(sys.modules[tf.recompute_grad.__module__], "recompute_grad.<locals>.inner")
"""That of ``tf.recompute_grad``, and of Keras's ``remat`` and ``RematScope``."""
Edge = tuple[int, int]
"""The numbers of a value, and of one that it was made of."""
Place = tuple[str, int]
"""A line of code: its file and number."""
MOST = 8
"""So many are kept for one value."""


@dataclass(frozen=True)
class Severed:
    """An operation that was given differentiated values, by number, and lets no gradient through: when, and where."""

    operation: str
    by: CutBy
    dtype: str
    inputs: tuple[int, ...]
    position: int
    place: Place | None

    @property
    def source(self) -> Source | None:
        return None if self.place is None else source_at(*self.place)


class LoggedCuts:
    """The cuts behind each value of one run, by its number; or behind a Variable, by that of its handle."""

    def __init__(self) -> None:
        self.behind: dict[int, tuple[Severed, ...]] = {}
        self.closed: dict[Edge, Severed] = {}  # edges that tapes follow, and along which None comes back
        self.zero: dict[Edge, Severed] = {}  # or zeros
        self.once: dict[int, Severed] = {}  # what made these is differentiated once: see ``run_once``
        self.left: dict[Place, Severed] = {}  # lines that took numbers out of TensorFlow

    def cut(
        self,
        operation: str,
        by: CutBy,
        dtype: str,
        flowing: tuple[int, ...],
        position: int,
        made: int,
        place: Place | None = None,
    ) -> None:
        """This operation made a value of followed ones, which no gradient comes back to."""
        if operation not in NOT_OF_NUMBERS:
            self._add(made, (Severed(operation, by, dtype, flowing, position, place or users_place()),))

    def flow(self, operation: str, flowing: tuple[int, ...], position: int, made: int) -> None:
        """This operation made a value that tapes follow; some have no derivative all the same."""
        flat = is_flat(operation)
        if flat or operation in ZERO:
            by, edges = (CutBy.NO_DERIVATIVE, self.closed) if flat else (CutBy.ZERO_DERIVATIVE, self.zero)
            severed = Severed(operation, by, "", flowing, position, users_place())
            edges.update({(made, given): severed for given in flowing})

    def leave(self, number: int, position: int) -> None:
        """The numbers of a value that is followed were taken out of TensorFlow, as by ``numpy()`` or ``float()``."""
        place = users_place()
        known = None if place is None else self.left.get(place)
        if place is not None:
            inputs = (number,) if known is None else (*known.inputs, number)[-MOST:]
            self.left[place] = Severed("", CutBy.LEFT, "", inputs, position, place)

    def passed(self, given: Iterable[int], made: Iterable[int]) -> None:
        """Values were made of others: what is behind those is behind these."""
        known = self.behind
        found = tuple([severed for number in given if number in known for severed in known[number]])
        if found:
            for number in made:
                self._add(number, found)

    def severed_behind(self, numbers: Iterable[int]) -> list[Severed]:
        """The cuts behind any of these values."""
        return list(dict.fromkeys(severed for number in numbers for severed in self.behind.get(number, ())))

    def _add(self, number: int, found: Sequence[Severed]) -> None:
        self.behind[number] = tuple(dict.fromkeys((*self.behind.get(number, ()), *found)))[:MOST]


@lru_cache(4096)
def is_flat(operation: str) -> bool:
    """Does TensorFlow follow this operation, and have no derivative for it?"""
    return private.has_no_derivative(operation)


@lru_cache(4096)
def is_cast(operation: str) -> bool:
    """Has TensorFlow a derivative for this operation, which makes a single value of a dtype that can have none?"""
    return private.has_derivative(operation) and private.makes_one(operation)


def in_checkpoint() -> bool:
    """Does a checkpoint run, which stops all tapes while it does, and goes on with what it will compute again?"""
    return any(frame.f_code in CHECKPOINT for frame in callers(sys._getframe()))


def users_place() -> Place | None:
    """The user's line that runs now."""
    frame = next(users_frames(sys._getframe(1)), None)
    return None if frame is None else (frame.f_code.co_filename, frame.f_lineno)
