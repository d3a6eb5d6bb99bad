"""The state machine of a guard, the same in every framework: calls end, passes reach them, passes end.

A framework reports when this happens, and tells which of some numbers are not finite. This module decides what is
examined, what the guard is told, and what is forgotten when a pass is over.
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from backprobe.backends.guards import Found, GuardedCall, GuardListener, Over, PassedCall
from backprobe.record.nonfinite import Nonfinite

Unfit = Callable[[Mapping[str, Any]], Found]
"""(numbers by name) -> those that contain NaN or Inf."""

Call = TypeVar("Call", bound=PassedCall)
OnePass = TypeVar("OnePass", bound="GuardedPass[Any]")


def counted(named: Mapping[str, Any], count: Callable[[list[Any]], Iterable[Nonfinite | None]]) -> Found:
    """The values that contain NaN or Inf, according to ``count``."""
    counts = zip(named, count(list(named.values())), strict=True)
    return {name: found for name, found in counts if found and not found.is_finite}


class Guarding:
    """Listens to a program, and tells a guard about values that are not finite.

    It ignores calls that the guard repeats: see ``repeating``.
    """

    is_repeating = False

    def __init__(self, listener: GuardListener) -> None:
        self.listener = listener

    unfit: Unfit

    @contextmanager
    def repeating(self) -> Iterator[None]:
        """Calls within this context are repetitions, and ignored."""
        before, self.is_repeating = self.is_repeating, True
        try:
            yield
        finally:
            self.is_repeating = before


class CallGuarding(Guarding):
    """Listens to the calls of one model."""

    def ended(self, call: GuardedCall, outputs: Mapping[str, Any]) -> None:
        """A call has returned these outputs, by path. The guard is told of those that it reads and are not finite."""
        is_read = self.listener.is_read
        bad = self.unfit({path: one for path, one in outputs.items() if is_read(f"{call.path}:return{path}")})
        if bad:
            call.failed_with(outputs, bad)
            with self.repeating():
                self.listener.called(call, bad)


@dataclass(eq=False)
class GuardedPass(Generic[Call]):
    """A backward pass, and the calls that it has reached, the last call first."""

    calls: dict[Call, None] = field(default_factory=dict)

    def come(self, call: Call, path: str, gradient: Any) -> None:
        """The pass has brought a gradient to an output of a call."""
        self.calls[call] = None
        call.gradients[path] = gradient

    def forget(self) -> None:
        """The pass is over; its gradients are no longer held."""
        for call in self.calls:
            call.gradients.clear()


class PassGuarding(CallGuarding, Generic[OnePass]):
    """Also listens to backward passes through these calls, in a framework that differentiates what has run."""

    @abstractmethod
    def left_by(self, ended: OnePass) -> Iterable[tuple[str, Any]]:
        """The gradients that a pass has left in the parameters, by their paths."""

    @abstractmethod
    def is_handled(self, ended: OnePass) -> bool:
        """Did the pass begin at a scaled loss whose overflow the program handles?"""

    def keep(self, ended: OnePass, left: Mapping[str, Any]) -> None:
        """Keep what the pass has left, for a capture; not all of it is finite."""

    def passed(self, ended: OnePass) -> None:
        """A pass is over. The guard is told about the gradients that it reads and are not finite."""
        left = {path: one for path, one in self.left_by(ended) if self.listener.is_read(path)}
        bad = self.unfit(left)
        if bad and not self.is_handled(ended):
            self.keep(ended, left)
            with self.repeating():
                self.listener.differentiated([*ended.calls], bad)


class Heard:
    """What a guard without access to compiled code has met: anything with numbers, anything without?"""

    is_any = has_compiled = False

    def came(self, *, with_numbers: bool) -> bool:
        """Something has run that the guard should examine. Returns whether it can."""
        self.is_any |= with_numbers
        self.has_compiled |= not with_numbers
        return with_numbers

    @property
    def is_all(self) -> bool:
        """Was there anything, and could all of it be examined?"""
        return self.is_any and not self.has_compiled

    def warn(self, message: str) -> None:
        """Warn about what was not seen. To be called when the guard's context ends."""
        if not self.is_all:
            warnings.warn(message, UserWarning, stacklevel=5)


def part_ended(
    roots: Mapping[str, Any], gradients: Mapping[str, Any], unfit: Unfit, is_handled: Callable[[], bool], over: Over
) -> None:
    """A pass in a guarded block is over: ``over`` is called if it left anything that is not finite.

    The values at which it began are a finding only if the gradients are finite.
    """
    bad = unfit(gradients)
    begun = {} if bad else unfit(roots)
    if (bad or begun) and not is_handled():
        over(bad or begun, bool(begun))
