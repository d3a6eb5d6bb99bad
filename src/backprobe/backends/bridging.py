"""Bridges: a value gets the history of another one, to see whether a gradient arrives that way.

The value keeps its numbers. A bridge multiplies the gradient by arbitrary factors, which differ from element to
element: with the same factor everywhere it would be 0 behind a softmax, whose gradients sum to 0.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from itertools import islice
from types import FrameType
from typing import Any, Protocol

from backprobe.backends.held_values import attributes
from backprobe.record.containers import children, refilled

DEEPEST = 3  # levels of nested objects
MOST = 1000  # items of a container that are looked at


@dataclass(frozen=True)
class BridgedPass:
    """One backward pass that the program ran: the loss as a number, and whether gradients arrived.

    ``arrived`` and ``lacking`` belong to ``sources``: does a nonzero gradient arrive there over the bridges that are in
    place, and would there be none without them? ``frame`` is where the program ran the pass.
    """

    loss: float | None
    sources: Sequence[Any]
    arrived: Sequence[bool]
    lacking: Sequence[bool]
    frame: FrameType


class Bridges(Protocol):
    """What a framework does about bridges, while a program runs in which some are built."""

    @abstractmethod
    def bridged(self, value: Any, source: Any) -> Any | None:
        """The value, with the history of the tensors in ``source`` as well, which is a tensor or a container of
        tensors.

        None if the value has no floating tensor that could get a history, as for a number, or if ``source`` has none.
        """

    @abstractmethod
    def sources(self, held: Any, *, of_models: bool = True) -> list[Any]:
        """The tensors that may have a history, in an object that a program mentions: a tensor, container, object or
        model.
        """

    @abstractmethod
    def connected(self, held: Any) -> list[Any]:
        """Those of its ``sources`` that a gradient could reach now: they have a history or are differentiated."""

    @abstractmethod
    def is_off(self) -> bool:
        """Is history switched off, so that nothing that the program computes now gets one?"""

    @abstractmethod
    def moved(self, value: Any, by: float, undo: list[Callable[[], None]]) -> Any:
        """A value with changed numbers and the same history. Models stay the same objects, and are changed until
        ``undo``.
        """

    @abstractmethod
    def shift(self, sources: Sequence[Any], by: float) -> None:
        """Change the numbers of those among these tensors that are trained, and of the trained tensors in their
        history.
        """

    @abstractmethod
    def kept(self, value: Any) -> Any:
        """A copy of the value in memory of its own."""

    @abstractmethod
    def begin(self) -> None:
        """Reset random numbers and modes of the framework to those of a new process."""

    @property
    @abstractmethod
    def writers(self) -> Sequence[tuple[Any, str]]:
        """Functions that write files without Python's ``open``: each with the module or class that contains it."""

    @abstractmethod
    def passes(
        self, heard: Callable[[BridgedPass], None], watched: Callable[[FrameType], Sequence[Any]]
    ) -> AbstractContextManager[None]:
        """Within this context ``heard`` is called for each backward pass, with the gradients that came over bridges.

        The program itself gets the gradients that it would get without bridges. ``watched`` is called with the frame
        that runs the pass, and returns further tensors whose gradients ``heard`` should get, though no bridge leads to
        them.
        """


class Gates:
    """Do gradients go over bridges now? They do, except in a pass that is run only for comparison."""

    def __init__(self) -> None:
        self.is_open = True

    @contextmanager
    def closed(self) -> Iterator[None]:
        """Within this context no gradient goes over a bridge."""
        before, self.is_open = self.is_open, False
        try:
            yield
        finally:
            self.is_open = before


def filled(value: Any, replace: Callable[[Any], Any | None]) -> Any | None:
    """A value with those leaves replaced for which there is a replacement; None where there is none for any.

    >>> filled([1, "x"], lambda leaf: leaf + 1 if leaf == 1 else None), filled("x", lambda leaf: None)
    ([2, 'x'], None)
    """
    made = []

    def one(leaf: Any) -> Any:
        new = replace(leaf)
        if new is None:
            return leaf
        made.append(new)
        return new

    found = refilled(value, one)
    return found if made else None


def opened(held: Any, is_whole: Callable[[Any], bool], depth: int = 0) -> Iterator[Any]:
    """What stands in a value: what is whole in containers, and in attributes of objects of the program's own classes.

    >>> [*opened({"a": [1.0, 2]}, lambda one: isinstance(one, float))]
    [1.0]
    """
    if is_whole(held):
        yield held
    elif depth < DEEPEST:
        inside = children(held)
        parts: Iterable[Any] = attributes(held) if inside is None else [item for _, item in inside]
        for part in islice(parts, MOST):
            yield from opened(part, is_whole, depth + 1)
