"""Operations that let no gradient through, with the user's line for each. They explain why a tape returns None."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import tensorflow as tf

from backprobe.backends import user_lines
from backprobe.backends.framework_code import CodeOf
from backprobe.backends.tensorflow import private
from backprobe.backends.user_lines import Place, callers, source_at
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
"""Operations that tapes record, but whose derivative is 0 everywhere."""
CHECKPOINT = CodeOf(sys.modules[tf.recompute_grad.__module__], "recompute_grad.<locals>.inner")
"""The code of ``tf.recompute_grad``, which Keras's ``remat`` and ``RematScope`` also run."""
Edge = tuple[int, int]
"""The number of a value, and the number of a value from which it was computed."""
MOST = 8
"""The most cuts that are kept for one value."""


@dataclass(frozen=True)
class Severed:
    """An operation that lets no gradient through, with the numbers of the differentiated values that it received, its
    position and its line. Where numbers were read out of TensorFlow, ``operation`` is empty.
    """

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
    """The cuts before each value of one run, by the number of the value. For a Variable it is the number of its
    handle.
    """

    def __init__(self) -> None:
        self.behind: dict[int, tuple[Severed, ...]] = {}
        self.closed: dict[Edge, Severed] = {}  # edges that tapes record, but whose gradient is None
        self.zero: dict[Edge, Severed] = {}  # edges that tapes record, but whose gradient is 0
        # results of operations that can be differentiated only once: see ``run_once``
        self.once: dict[int, Severed] = {}
        self.left: dict[Place, Severed] = {}  # lines that read numbers out of TensorFlow

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
        """Record an operation that computed a value from watched values and returns no gradient to them. Operations
        that use only the shape of their inputs are ignored.
        """
        if operation not in NOT_OF_NUMBERS:
            self._add(made, (Severed(operation, by, dtype, flowing, position, place or users_place()),))

    def flow(self, operation: str, flowing: tuple[int, ...], position: int, made: int) -> None:
        """Record an operation that tapes record, if it nevertheless has no derivative, or the derivative 0."""
        flat = is_flat(operation)
        if flat or operation in ZERO:
            by, edges = (CutBy.NO_DERIVATIVE, self.closed) if flat else (CutBy.ZERO_DERIVATIVE, self.zero)
            severed = Severed(operation, by, "", flowing, position, users_place())
            edges.update({(made, given): severed for given in flowing})

    def leave(self, number: int, position: int) -> None:
        """Record the user's line that read the numbers of a watched value out of TensorFlow, for example by ``numpy()``
        or ``float()``. A read without a line of the user is ignored.
        """
        place = users_place()
        if place is not None:
            known = self.left.get(place)
            inputs = (number,) if known is None else (*known.inputs, number)[-MOST:]
            self.left[place] = Severed("", CutBy.LEFT, "", inputs, position, place)

    def passed(self, given: Iterable[int], made: Iterable[int]) -> None:
        """Copy the cuts before these inputs to the values that were computed from them."""
        known = self.behind
        found = tuple([severed for number in given if number in known for severed in known[number]])
        if found:
            for number in made:
                self._add(number, found)

    def severed_behind(self, numbers: Iterable[int]) -> list[Severed]:
        """Return the cuts before any of these values."""
        return list(dict.fromkeys(severed for number in numbers for severed in self.behind.get(number, ())))

    def _add(self, number: int, found: Sequence[Severed]) -> None:
        self.behind[number] = tuple(dict.fromkeys((*self.behind.get(number, ()), *found)))[:MOST]


@lru_cache(4096)
def is_flat(operation: str) -> bool:
    """Does TensorFlow record this operation although it has no derivative?"""
    return private.has_derivative(operation) is False


@lru_cache(4096)
def is_cast(operation: str) -> bool:
    """Does this operation have a derivative and exactly one output? If the output carries no gradient nevertheless, the
    reason is its dtype.
    """
    return private.has_derivative(operation) is True and private.makes_one(operation)


def in_checkpoint() -> bool:
    """Is a checkpoint running? It stops all tapes, and returns values that will be recomputed."""
    return any(frame.f_code in CHECKPOINT for frame in callers(sys._getframe()))


def users_place() -> Place | None:
    """Return the user's line that is running; None if there is none."""
    return user_lines.users_place(sys._getframe(1))
