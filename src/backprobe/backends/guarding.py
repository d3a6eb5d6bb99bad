"""The state machine of a guard, the same in every framework: calls end, passes come to them, passes end.

A framework says when that happens, and gives what the machine needs to know: which of some numbers are not finite. What
is looked at, what the guard is told, and what is forgotten when a pass is over, is here.
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
"""(numbers by name) -> those that hold NaN or Inf."""

Call = TypeVar("Call", bound=PassedCall)
OnePass = TypeVar("OnePass", bound="GuardedPass[Any]")


def counted(named: Mapping[str, Any], count: Callable[[list[Any]], Iterable[Nonfinite | None]]) -> Found:
    """Those that hold NaN or Inf, as ``count`` says."""
    counts = zip(named, count(list(named.values())), strict=True)
    return {name: found for name, found in counts if found and not found.is_finite}


class Guarding:
    """What hears a program, and tells a guard of what is not finite.

    It leaves alone what a guard makes again: see ``repeating``.
    """

    is_repeating = False

    def __init__(self, listener: GuardListener) -> None:
        self.listener = listener

    unfit: Unfit

    @contextmanager
    def repeating(self) -> Iterator[None]:
        """What runs within this context is a repetition, and not heard."""
        before, self.is_repeating = self.is_repeating, True
        try:
            yield
        finally:
            self.is_repeating = before


class CallGuarding(Guarding):
    """Hears the calls of one model."""

    def ended(self, call: GuardedCall, outputs: Mapping[str, Any]) -> None:
        """A call has returned these, by path: the guard is told of those that it reads and that are not finite."""
        is_read = self.listener.is_read
        bad = self.unfit({path: one for path, one in outputs.items() if is_read(f"{call.path}:return{path}")})
        if bad:
            call.failed_with(outputs, bad)
            with self.repeating():
                self.listener.called(call, bad)


@dataclass(eq=False)
class GuardedPass(Generic[Call]):
    """A pass of backward, and the calls that it has come to, the last call first."""

    calls: dict[Call, None] = field(default_factory=dict)

    def come(self, call: Call, path: str, gradient: Any) -> None:
        """It has brought a gradient to an output of a call."""
        self.calls[call] = None
        call.gradients[path] = gradient

    def forget(self) -> None:
        """It is over, and what it brought is not held."""
        for call in self.calls:
            call.gradients.clear()


class PassGuarding(CallGuarding, Generic[OnePass]):
    """Hears the passes of backward through these calls as well, in a framework that differentiates what has run."""

    @abstractmethod
    def left_by(self, ended: OnePass) -> Iterable[tuple[str, Any]]:
        """The gradients that a pass has left in the parameters, by their paths."""

    @abstractmethod
    def is_handled(self, ended: OnePass) -> bool:
        """Did it begin at a scaled loss whose overflow the program handles?"""

    def keep(self, ended: OnePass, left: Mapping[str, Any]) -> None:
        """Keep for a capture what the pass has left; not all of it is finite."""

    def passed(self, ended: OnePass) -> None:
        """A pass is over: the guard is told of the gradients that it reads and that are not finite."""
        left = {path: one for path, one in self.left_by(ended) if self.listener.is_read(path)}
        bad = self.unfit(left)
        if bad and not self.is_handled(ended):
            self.keep(ended, left)
            with self.repeating():
                self.listener.differentiated([*ended.calls], bad)


class Heard:
    """What has come to a guard that cannot look into compiled code: anything with numbers, anything without?"""

    is_any = has_compiled = False

    def came(self, *, with_numbers: bool) -> bool:
        """Something has run that the guard is to look at. Returns whether it can."""
        self.is_any |= with_numbers
        self.has_compiled |= not with_numbers
        return with_numbers

    @property
    def is_all(self) -> bool:
        """Was there something, and could all of it be looked at?"""
        return self.is_any and not self.has_compiled

    def warn(self, message: str) -> None:
        """Say what was not seen. To be called where the guard's context ends."""
        if not self.is_all:
            warnings.warn(message, UserWarning, stacklevel=5)


def part_ended(
    roots: Mapping[str, Any], gradients: Mapping[str, Any], unfit: Unfit, is_handled: Callable[[], bool], over: Over
) -> None:
    """A pass in a guarded block is over: ``over`` is called if it has left something that is not finite.

    What it began at is a finding only where the gradients are finite.
    """
    bad = unfit(gradients)
    begun = {} if bad else unfit(roots)
    if (bad or begun) and not is_handled():
        over(bad or begun, bool(begun))
