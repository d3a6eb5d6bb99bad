"""Bridges connect a value to the history of another value, to test whether a gradient would then arrive.

The value keeps its numbers. A bridge multiplies the gradient by arbitrary factors that differ from element to element.
If all factors were equal, the gradient behind a softmax would be 0, because gradients of a softmax sum to 0.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import islice
from types import FrameType
from typing import Any, Protocol

from backprobe.backends.held_values import attributes
from backprobe.backends.temporarily import temporarily
from backprobe.record.containers import children, refilled

DEEPEST = 3  # the deepest level of nested objects that is searched
MOST = 1000  # the most items of a container that are searched


@dataclass(frozen=True)
class BridgedPass:
    """One backward pass that the program ran: the loss as a number, and whether gradients arrived.

    ``arrived`` and ``lacking`` have one item for each of ``sources``. ``arrived`` says whether a nonzero gradient
    reaches the source through the bridges. ``lacking`` says whether the source would get no gradient without the
    bridges. ``frame`` is the frame in which the program ran the pass.
    """

    loss: float | None
    sources: Sequence[Any]
    arrived: Sequence[bool]
    lacking: Sequence[bool]
    frame: FrameType


class Bridges(Protocol):
    """Builds bridges in a framework, while a program runs."""

    @abstractmethod
    def bridged(self, value: Any, source: Any) -> Any | None:
        """Return the value with the history of the tensors in ``source`` added to its own.

        ``source`` is a tensor or a container of tensors. Returns None if the value has no floating tensor that could
        get a history, for example a number, or if ``source`` has no such tensor.
        """

    @abstractmethod
    def sources(self, held: Any, *, of_models: bool = True) -> list[Any]:
        """Return the tensors that may have a history in a value of the program: a tensor, container, object or model.
        Without ``of_models``, parameters of models are left out.
        """

    @abstractmethod
    def connected(self, held: Any) -> list[Any]:
        """Return those ``sources`` of an object that a gradient could reach now, because they have a history or require
        one.
        """

    @abstractmethod
    def is_off(self) -> bool:
        """Is recording of history switched off, so that newly computed values get no history?"""

    @abstractmethod
    def moved(self, value: Any, by: float, undo: list[Callable[[], None]]) -> Any:
        """Return a value with changed numbers and the same history. A model stays the same object and is changed in
        place until the functions in ``undo`` run.
        """

    @abstractmethod
    def shift(self, sources: Sequence[Any], by: float) -> None:
        """Change the numbers of the trained tensors among these tensors and in their history."""

    @abstractmethod
    def kept(self, value: Any) -> Any:
        """Return the value as it is now: arrays, and computed tensors that can be written in place, are copied."""

    @abstractmethod
    def begin(self) -> None:
        """Reset the framework's global state on which a script depends, such as its modes, to that of a new process."""

    def part(self, value: Any, name: str) -> Any:
        """Return the part of a value that this segment of a dotted name refers to; None if there is none."""
        return getattr(value, name, None)

    @property
    @abstractmethod
    def writers(self) -> Sequence[tuple[Any, str]]:
        """The functions that write files without Python's ``open``, each as its module or class and its name."""

    @abstractmethod
    def passes(
        self, heard: Callable[[BridgedPass], None], watched: Callable[[FrameType], Sequence[Any]]
    ) -> AbstractContextManager[None]:
        """Within this context ``heard`` is called for backward passes of the program, with what arrived through
        bridges.

        The program itself gets the gradients that it would get without bridges. ``watched`` is called with the frame
        that runs the pass. It returns further tensors whose gradients ``heard`` should also get, although no bridge
        leads to them.
        """


class Gates:
    """Switches the flow of gradients through all bridges. It is off only in a pass that is run for comparison."""

    def __init__(self) -> None:
        self.is_open = True

    def closed(self) -> AbstractContextManager[None]:
        """Within this context no gradient flows through a bridge."""
        return temporarily(self, is_open=False)


def filled(value: Any, replace: Callable[[Any], Any | None]) -> Any | None:
    """Return a value in which ``replace`` has replaced leaves, or None if it returned None for every leaf.

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
    """Yield the parts of a value for which ``is_whole`` is true, from containers and from attributes of the program's
    objects, and from functions in objects of libraries. At most ``MOST`` parts of each object are searched, and
    ``DEEPEST`` levels.

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
