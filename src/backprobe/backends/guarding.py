"""The state machine of a guard, shared by all frameworks: calls end, backward passes reach the calls, and passes end.

A backend reports these events, and counts NaN and Inf in given tensors. This module decides which tensors are examined,
what is reported to the guard, and what is released when a pass ends.
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from backprobe.backends.guards import Found, GuardedCall, GuardListener, Over, PassedCall
from backprobe.backends.temporarily import temporarily
from backprobe.record.nonfinite import Nonfinite

Unfit = Callable[[Mapping[str, Any]], Found]
"""(tensors by name) -> the counts of NaN and Inf in those that contain any."""

Call = TypeVar("Call", bound=PassedCall)
OnePass = TypeVar("OnePass", bound="GuardedPass[Any]")


def counted(named: Mapping[str, Any], count: Callable[[list[Any]], Iterable[Nonfinite | None]]) -> Found:
    """Return the counts for the values that contain NaN or Inf, by name."""
    counts = zip(named, count(list(named.values())), strict=True)
    return {name: found for name, found in counts if found and not found.is_finite}


class Guarding:
    """Observes a program, and reports values that are not finite to a guard.

    Calls that the guard itself repeats are ignored: see ``repeating``.
    """

    is_repeating = False

    def __init__(self, listener: GuardListener) -> None:
        self.listener = listener

    unfit: Unfit

    def repeating(self) -> AbstractContextManager[None]:
        """Within this context, calls are repetitions by the guard, and are ignored."""
        return temporarily(self, is_repeating=True)


class CallGuarding(Guarding):
    """Observes the calls of one model."""

    def ended(self, call: GuardedCall, outputs: Mapping[str, Any]) -> None:
        """Called when a call has returned these outputs, given by path. Reports the ones that the guard reads and that
        are not finite.
        """
        is_read = self.listener.is_read
        bad = self.unfit({path: one for path, one in outputs.items() if is_read(f"{call.path}:return{path}")})
        if bad:
            call.failed_with(outputs, bad)
            with self.repeating():
                self.listener.called(call, bad)


@dataclass(eq=False)
class GuardedPass(Generic[Call]):
    """A backward pass, and the calls that it has reached, last call first."""

    calls: dict[Call, None] = field(default_factory=dict)

    def come(self, call: Call, path: str, gradient: Any) -> None:
        """Called when the pass has brought a gradient to an output of a call."""
        self.calls[call] = None
        call.gradients[path] = gradient

    def forget(self) -> None:
        """Release the gradients of the pass, which has ended."""
        for call in self.calls:
            call.gradients.clear()


class PassGuarding(CallGuarding, Generic[OnePass]):
    """Also observes backward passes through these calls, for frameworks that differentiate a program after it has
    run.
    """

    @abstractmethod
    def left_by(self, ended: OnePass) -> Iterable[tuple[str, Any]]:
        """Return the gradients that a pass has left in the parameters, by parameter path."""

    @abstractmethod
    def is_handled(self, ended: OnePass) -> bool:
        """Did the pass begin at a scaled loss whose overflow the program handles itself?"""

    def keep(self, ended: OnePass, left: Mapping[str, Any]) -> None:
        """Keep the gradients of a pass, some of which are not finite, for a capture."""

    def passed(self, ended: OnePass) -> None:
        """Called when a pass has ended. Reports the gradients that the guard reads and that are not finite, unless the
        program handles their overflow.
        """
        left = {path: one for path, one in self.left_by(ended) if self.listener.is_read(path)}
        bad = self.unfit(left)
        if bad and not self.is_handled(ended):
            self.keep(ended, left)
            with self.repeating():
                self.listener.differentiated([*ended.calls], bad)


class Heard:
    """Records whether a guard that cannot see into compiled code has met any tensors with numbers, and any without."""

    is_any = has_compiled = False

    def came(self, *, with_numbers: bool) -> bool:
        """Record that something has run that the guard should examine. Returns whether it has numbers to examine."""
        self.is_any |= with_numbers
        self.has_compiled |= not with_numbers
        return with_numbers

    def warn(self, message: str) -> None:
        """Warn if nothing ran, or if anything that ran could not be examined. Called when the guard's context ends."""
        if self.has_compiled or not self.is_any:
            warnings.warn(message, UserWarning, stacklevel=5)


def part_ended(
    roots: Mapping[str, Any], gradients: Mapping[str, Any], unfit: Unfit, is_handled: Callable[[], bool], over: Over
) -> None:
    """Called when a backward pass in a guarded block has ended. Calls ``over`` with the gradients that are not finite;
    if there are none, with the values at which the pass began, if these are not finite.

    Nothing is reported if the program handles an overflow of this pass itself.
    """
    bad = unfit(gradients)
    begun = {} if bad else unfit(roots)
    if (bad or begun) and not is_handled():
        over(bad or begun, bool(begun))
