"""Facts about memory: the tensors that a framework keeps for backward, and objects of earlier steps that are still
alive.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from backprobe.record.source import Source


@dataclass(frozen=True)
class Saved:
    """Memory that one line kept for backward in one step: the line, module and operation, the number of tensors, and
    their bytes.
    """

    source: Source | None
    module: str
    operation: str
    tensors: int
    nbytes: int


@dataclass(frozen=True)
class Alive:
    """An object of earlier steps that is still alive, the steps whose memory it keeps, and the number of bytes.

    ``is_carried`` says that the object belongs to the last step and refers back to earlier ones. ``source`` is the line
    that created it, if known. ``kind`` is ``graphs`` for memory kept for a backward pass, and ``arrays`` for plain
    numbers. ``called`` describes the kept memory in a message, before the number of steps. ``without`` is code with
    which a value keeps no such memory, and ``next`` is the advice if there is no such code.
    """

    held: Any
    steps: frozenset[int]
    nbytes: int
    is_carried: bool = False
    source: Source | None = None
    kind: str = "graphs"
    called: str = "the graphs of"
    without: str = "{}.detach()"
    next: str = ""


@dataclass(frozen=True)
class KeptObject:
    """Objects that are kept from step to step, such as hooks or gradients: their kind, name, number and bytes."""

    kind: str
    name: str
    count: int
    nbytes: int
    source: Source | None = None


@dataclass
class MeasuredMemory:
    """The measured memory of a block."""

    steps: int = 0
    saved: Sequence[Saved] = ()
    """The memory of the step that kept the most bytes."""

    peak: int = 0
    """The largest number of bytes that were kept for backward at any time."""

    device_peak: int | None = None
    """The largest number of bytes in use on a device, according to the framework."""

    alive: Sequence[Alive] = ()
    kept: Sequence[KeptObject] = ()


class StorageBytes:
    """Counts the bytes of distinct storages that are kept, now and at the peak."""

    def __init__(self) -> None:
        self.by_place: dict[Any, list[int]] = {}
        self.now = self.most = 0

    def add(self, place: Any, size: int) -> None:
        held = self.by_place.setdefault(place, [0, size])
        held[0] += 1
        if held[0] == 1:
            self.now += size
            self.most = max(self.most, self.now)

    def remove(self, place: Any) -> None:
        held = self.by_place[place]
        held[0] -= 1
        if not held[0]:
            self.now -= self.by_place.pop(place)[1]


class StepBytes:
    """The bytes kept in each step, by line, module and operation. A shared storage counts for the line that kept it
    first.
    """

    def __init__(self) -> None:
        self.now: dict[tuple[Source | None, str, str], dict[Any, int]] = defaultdict(dict)
        self.counted: set[Any] = set()
        self.largest: tuple[int, dict[tuple[Source | None, str, str], dict[Any, int]]] = (0, {})

    def add(self, key: tuple[Source | None, str, str], place: Any, size: int) -> None:
        """Count a storage for the line, module and operation that keep it."""
        if place not in self.counted:
            self.counted.add(place)
            self.now[key][place] = size

    def end(self) -> None:
        """End the present step."""
        size = sum(sum(own.values()) for own in self.now.values())
        if size > self.largest[0]:
            self.largest = size, dict(self.now)
        self.now = defaultdict(dict)
        self.counted = set()

    def saved(self) -> list[Saved]:
        """Return the memory that the largest step kept, most bytes first."""
        saved = [
            Saved(source, module, operation, len(places), sum(places.values()))
            for (source, module, operation), places in self.largest[1].items()
        ]
        return sorted(saved, key=lambda one: -one.nbytes)


class MemoryHearing(Protocol):
    """Observes the memory that a program keeps, between ``open`` and ``close``."""

    hears_steps: bool = True
    """Do optimizers report the end of each step?"""

    after_step: Callable[[int], None] | None = None
    """Called at the end of each step, with the number of steps so far."""

    @abstractmethod
    def open(self) -> None:
        """Begin to observe."""

    @abstractmethod
    def step(self) -> None:
        """Called when a step of the training has ended."""

    @abstractmethod
    def close(self) -> None:
        """Stop observing."""

    @abstractmethod
    def measured(self) -> MeasuredMemory:
        """Return the measured memory."""
