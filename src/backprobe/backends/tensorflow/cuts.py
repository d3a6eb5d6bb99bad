"""Operations that let no gradient through, with the user's line for each: why a tape returns None."""

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
"""Operations whose result depends only on the shape or dtype of their input."""
ZERO = frozenset({"Sign"})
"""Operations that tapes follow, but whose derivative is 0 everywhere."""
CHECKPOINT = CodeOf(sys.modules[tf.recompute_grad.__module__], "recompute_grad.<locals>.inner")
"""The code of ``tf.recompute_grad``, which Keras's ``remat`` and ``RematScope`` also run."""
Edge = tuple[int, int]
"""The numbers of a value, and of one that it was computed from."""
Place = tuple[str, int]
"""A line of code: file and number."""
MOST = 8
"""The most cuts that are kept for one value."""


@dataclass(frozen=True)
class Severed:
    """An operation that received differentiated values, by number, and lets no gradient through; when and where."""

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
    """The cuts before each value of one run, by the value's number; for a Variable, by the number of its handle."""

    def __init__(self) -> None:
        self.behind: dict[int, tuple[Severed, ...]] = {}
        self.closed: dict[Edge, Severed] = {}  # edges that tapes follow, but along which None comes back
        self.zero: dict[Edge, Severed] = {}  # the same for zeros
        # results of operations that can be differentiated only once: see ``run_once``
        self.once: dict[int, Severed] = {}
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
        """Record an operation that made a value from followed ones and returns no gradient to them."""
        if operation not in NOT_OF_NUMBERS:
            self._add(made, (Severed(operation, by, dtype, flowing, position, place or users_place()),))

    def flow(self, operation: str, flowing: tuple[int, ...], position: int, made: int) -> None:
        """Record an operation whose result tapes follow, if it has no derivative all the same."""
        flat = is_flat(operation)
        if flat or operation in ZERO:
            by, edges = (CutBy.NO_DERIVATIVE, self.closed) if flat else (CutBy.ZERO_DERIVATIVE, self.zero)
            severed = Severed(operation, by, "", flowing, position, users_place())
            edges.update({(made, given): severed for given in flowing})

    def leave(self, number: int, position: int) -> None:
        """The numbers of a followed value were taken out of TensorFlow, as by ``numpy()`` or ``float()``."""
        place = users_place()
        known = None if place is None else self.left.get(place)
        if place is not None:
            inputs = (number,) if known is None else (*known.inputs, number)[-MOST:]
            self.left[place] = Severed("", CutBy.LEFT, "", inputs, position, place)

    def passed(self, given: Iterable[int], made: Iterable[int]) -> None:
        """Values were computed from others: pass on the cuts before those."""
        known = self.behind
        found = tuple([severed for number in given if number in known for severed in known[number]])
        if found:
            for number in made:
                self._add(number, found)

    def severed_behind(self, numbers: Iterable[int]) -> list[Severed]:
        """The cuts before any of these values."""
        return list(dict.fromkeys(severed for number in numbers for severed in self.behind.get(number, ())))

    def _add(self, number: int, found: Sequence[Severed]) -> None:
        self.behind[number] = tuple(dict.fromkeys((*self.behind.get(number, ()), *found)))[:MOST]


@lru_cache(4096)
def is_flat(operation: str) -> bool:
    """Does TensorFlow follow this operation although it has no derivative?"""
    return private.has_no_derivative(operation)


@lru_cache(4096)
def is_cast(operation: str) -> bool:
    """Does this operation have a derivative, but make a single value whose dtype can have none?"""
    return private.has_derivative(operation) and private.makes_one(operation)


def in_checkpoint() -> bool:
    """Is a checkpoint running? It stops all tapes meanwhile, and returns values that will be recomputed."""
    return any(frame.f_code in CHECKPOINT for frame in callers(sys._getframe()))


def users_place() -> Place | None:
    """The user's line that is running."""
    frame = next(users_frames(sys._getframe(1)), None)
    return None if frame is None else (frame.f_code.co_filename, frame.f_lineno)
