"""Facts about memory: what a framework keeps for backward, and what is still alive from earlier steps."""

from __future__ import annotations

from abc import abstractmethod
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from backprobe.record.source import Source


@dataclass(frozen=True)
class Saved:
    """What one line kept for backward in one step: the module and operation, the number of tensors, and their bytes."""

    source: Source | None
    module: str
    operation: str
    tensors: int
    nbytes: int


@dataclass(frozen=True)
class Alive:
    """Something from earlier steps that is still alive: the object, the steps whose memory it keeps, and how much.

    ``is_carried`` says that it belongs to the last step, and leads back to the earlier ones. ``source`` is the line
    that made it, if known. ``kind`` is ``graphs`` for what is kept for a backward pass, and ``arrays`` for plain
    numbers. ``called`` is how a message calls several. ``without`` is how to write the value so that it keeps no
    memory, and ``next`` is what to do if there is no such spelling.
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
    """Something else that stays from step to step: its kind, name, number and bytes."""

    kind: str
    name: str
    count: int
    nbytes: int
    source: Source | None = None


@dataclass
class MeasuredMemory:
    """What was heard about memory in a block."""

    steps: int = 0
    saved: Sequence[Saved] = ()
    """Of the step that kept the most."""

    peak: int = 0
    """The most bytes that were kept for backward at any time."""

    device_peak: int | None = None
    """The most bytes in use on a device, by its own counter."""

    alive: Sequence[Alive] = ()
    kept: Sequence[KeptObject] = ()


class StorageBytes:
    """The bytes of distinct storages that are kept: now, and at the peak."""

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
    """The bytes of each step by line, module and operation. A shared storage counts for the line that kept it first."""

    def __init__(self) -> None:
        self.now: dict[tuple[Source | None, str, str], dict[Any, int]] = defaultdict(dict)
        self.counted: set[Any] = set()
        self.largest: tuple[int, dict[tuple[Source | None, str, str], dict[Any, int]]] = (0, {})

    def add(self, key: tuple[Source | None, str, str], place: Any, size: int) -> None:
        """This line, module and operation keep something."""
        if place not in self.counted:
            self.counted.add(place)
            self.now[key][place] = size

    def end(self) -> None:
        """The step is over."""
        size = sum(sum(own.values()) for own in self.now.values())
        if size > self.largest[0]:
            self.largest = size, dict(self.now)
        self.now = defaultdict(dict)
        self.counted = set()

    def saved(self) -> list[Saved]:
        """What the largest step kept, the most first."""
        saved = [
            Saved(source, module, operation, len(places), sum(places.values()))
            for (source, module, operation), places in self.largest[1].items()
        ]
        return sorted(saved, key=lambda one: -one.nbytes)


class MemoryHearing(Protocol):
    """Listens to what a program keeps, between ``open`` and ``close``."""

    hears_steps: bool = True
    """Are there optimizers that tell where a step ends?"""

    after_step: Callable[[int], None] | None = None
    """Called at the end of each step, with the number of steps so far."""

    @abstractmethod
    def open(self) -> None:
        """Begin to listen."""

    @abstractmethod
    def step(self) -> None:
        """A step of the training is over."""

    @abstractmethod
    def close(self) -> None:
        """Stop listening."""

    @abstractmethod
    def measured(self) -> MeasuredMemory:
        """What was heard."""
