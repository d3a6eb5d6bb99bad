"""Facts about memory: what a framework keeps for backward, and what of earlier steps is still alive."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from backprobe.record.source import Source


@dataclass(frozen=True)
class Saved:
    """What one line kept for backward in one step: by which module and operation, how many tensors, how many bytes."""

    source: Source | None
    module: str
    operation: str
    tensors: int
    nbytes: int


@dataclass(frozen=True)
class Alive:
    """Something of earlier steps that is still alive: the object, what it keeps of which steps, and how much.

    ``is_carried`` says that it is of the last step, and leads back to the earlier ones. ``source`` is the line that
    made it, as far as that is known.
    """

    held: Any
    steps: frozenset[int]
    nbytes: int
    is_carried: bool = False
    source: Source | None = None


@dataclass(frozen=True)
class KeptObject:
    """Something else that stays from step to step, by its kind: what, where, how often and how many bytes."""

    kind: str
    name: str
    count: int
    nbytes: int
    source: Source | None = None


@dataclass
class MeasuredMemory:
    """What was heard of memory in a block."""

    steps: int = 0
    saved: Sequence[Saved] = ()
    """Of the step that kept the most."""

    peak: int = 0
    """The most bytes that were kept for backward at once."""

    device_peak: int | None = None
    """The most bytes on a device, by its own counter."""

    alive: Sequence[Alive] = ()
    kept: Sequence[KeptObject] = ()


class MemoryHearing(Protocol):
    """Hears what a program keeps, from the moment that it is opened until it is closed."""

    after_step: Callable[[int], None] | None = None
    """Called at the end of each step, with the number of steps so far."""

    @abstractmethod
    def open(self) -> None:
        """From now on."""

    @abstractmethod
    def step(self) -> None:
        """A step of the training is over."""

    @abstractmethod
    def close(self) -> None:
        """Hear nothing any more."""

    @abstractmethod
    def measured(self) -> MeasuredMemory:
        """What was heard."""
