"""The protocol of guards: a framework reports each finished call of a model, and each backward pass through it.

A guard reads little while all is well: the outputs of a call, and the gradients that a pass leaves. If one of these is
not finite, the call is repeated from the same inputs, buffers and random state, and the repetition is recorded.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from backprobe.backends.replay import HasState, Replay
from backprobe.backends.useless import Observed
from backprobe.record.brief import kind
from backprobe.record.nonfinite import Nonfinite, Update
from backprobe.record.reasons import Note, Reason
from backprobe.record.source import Source

Found = Mapping[str, Nonfinite]
"""Values that hold NaN or Inf, by name."""

Over = Callable[[Found, bool], None]
"""Called with the gradients left by a pass that are not finite, and False. If all gradients are finite, but the values
at which the pass began are not, it is called with those values, and True.
"""

EVERYTHING = ("**", "**:*", "**:*()")


class NotTheSame(Exception):
    """A call was repeated, but the repetition differs from the call that failed."""

    def __init__(self, why: Reason) -> None:
        super().__init__(str(why))
        self.why = why


class Repeatable(Protocol):
    """Something that the program has run, and that can be run again as it was."""

    @property
    @abstractmethod
    def target(self) -> Any:
        """The model or function that ran."""

    @abstractmethod
    def why_not_again(self) -> Reason | None:
        """Why it cannot be run again; None if it can."""

    @abstractmethod
    def restored(self) -> AbstractContextManager[object]:
        """Within this context buffers, random state and modes are those with which it began.

        State that a ``Replay`` restores is not restored here: see ``again``.
        """

    @abstractmethod
    def arguments(self) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
        """Its arguments, as separate leaves."""


@contextmanager
def again(backend: HasState, failed: Repeatable) -> Iterator[None]:
    """Within this context the failed call can run as it ran; afterwards all is as before. Raises NotTheSame."""
    args, kwargs = failed.arguments()
    replay = Replay(backend, failed.target, args, kwargs, draws_anew=False)
    with replay.run(), failed.restored():
        yield
    for one in replay.taken.values():
        raise NotTheSame(Reason("repeat_takes", {"kind": kind(one)}))


class GuardedCall(Repeatable, Protocol):
    """One call of the guarded model, or of one of its modules that the program called directly."""

    module: Any
    """What was called."""

    @property
    def target(self) -> Any:
        return self.module

    path: str
    """Its path in the model."""

    select: Sequence[str] = EVERYTHING
    """What is recorded when it is repeated."""

    output: tuple[str | None, Any] | None = None
    """The path of an output that is not finite, and ones of its shape, in a framework that has no blocks."""

    backward: str = "backward()"
    """What runs backward in programs of this framework."""

    see_loss: str = "with bp.guard(): without a model around the same lines, which sees what the loss is computed from"
    """What to write if NaN or Inf comes from code after the call."""

    see_lines: str = "with bp.probe(model, nonfinite=True) as rec: around this call, and bp.explain(rec)"
    """What to write if the call cannot be repeated."""

    def failed_with(self, outputs: Mapping[str, Any], bad: Found) -> None:
        """The call has returned these outputs; ``bad`` are those that are not finite."""
        return

    def again(self) -> None:
        """Repeat the call, forward only."""
        args, kwargs = self.arguments()
        self.module(*args, **kwargs)


class PassedCall(GuardedCall, Protocol):
    """A call that a backward pass has reached, in a framework that differentiates what has run."""

    gradients: dict[str, Any]
    """The gradients that the running pass has brought to its outputs, by their paths."""

    without: Collection[str] = ()
    """Outputs whose gradients are left out when the call is repeated."""

    def outputs_and_gradients(self, outputs: Mapping[str, Any]) -> tuple[list[Any], list[Any]]:
        """Those outputs of the call that received a gradient, and these gradients."""
        paths = [path for path in self.gradients if path in outputs and path not in self.without]
        return [outputs[path] for path in paths], [self.gradients[path] for path in paths]

    floating: Callable[[Any], Mapping[str, Any]]
    """The floating numbers in what a call has returned, by their paths."""

    unfit: Callable[[Mapping[str, Any]], Found]
    """Those of these numbers that contain NaN or Inf."""

    begun_with: Callable[[Sequence[Any], Sequence[Any]], Any]
    """(gradients, outputs) -> a zero whose backward starts at these outputs with these gradients."""

    def arrived(self) -> Found:
        """Those gradients of its outputs, from the pass that has just ended, that are not finite, by path."""
        return self.unfit(self.gradients)

    def seeded(self, returned: Any) -> Any:
        """A scalar of the repeated call's outputs; its backward starts with the gradients that had arrived there."""
        outputs, gradients = self.outputs_and_gradients(self.floating(returned))
        return self.begun_with(gradients, outputs)


class GuardedGradient(Repeatable, Protocol):
    """A gradient that the program has requested, in a framework that differentiates functions."""

    function: Any
    """The function that is differentiated."""

    @property
    def target(self) -> Any:
        return self.function

    wrt: frozenset[str]
    """The arguments with respect to which it is differentiated."""

    of: str | Callable[[Any], Any] | None
    """Selects the output in what the function returns, as ``of=`` does; None if that is all of it."""

    cotangent: Any = None
    """The cotangent of an output that is not a single number."""

    asked: str
    """How it was requested, as in ``jax.grad(loss)``."""

    see_lines: str
    """What to write if it cannot be run again."""

    trained: frozenset[str] | None = None
    """The names of the differentiated values, if these are not all arguments; None before the gradient arrives."""

    @abstractmethod
    def unused(self) -> set[str]:
        """The names of differentiated values from which nothing in the function is computed; empty if not known."""

    @abstractmethod
    def stopping(self, names: Collection[str]) -> Mapping[str, Sequence[tuple[str, Source | None]]]:
        """Those of these names whose derivative stops on every path to the output, each with the operations that stop
        it: the framework's names of the operations, and their lines in the program.
        """

    @abstractmethod
    def useless(self, suspicious: Collection[str]) -> Observed:
        """Gradients that exist but are useless. For these names also the place at which the gradients on their way to
        them vanish.

        Empty if that is not known.
        """

    is_undecided: bool = False
    """Was exactly one step made from the function's last gradient to this one, and did it change next to nothing?"""

    def still(self) -> Sequence[Note]:
        """The notes on steps, from one gradient of the function to the next, that change next to nothing."""
        return ()


def _nothing(*told: Any) -> None: ...


@dataclass(frozen=True)
class GuardListener:
    """The callbacks of a guard. Whatever they raise comes out of the program's call."""

    is_read: Callable[[str], bool]
    """(full name of an output, or path of a parameter) -> should it be examined?"""

    called: Callable[[GuardedCall, Found], None] = _nothing
    """(a call that has just ended, its outputs that are not finite)"""

    differentiated: Callable[[Sequence[PassedCall], Found], None] = _nothing
    """(the calls that a backward pass has reached, the last call first; the gradients that are not finite)"""

    gradient: Callable[[GuardedGradient, Found, bool], None] = _nothing
    """(a requested gradient; what is not finite; True if that is the function's value rather than its gradient)"""

    captures: bool = False
    """May a call be saved to a file? If so, its inputs before it ran and its outputs are kept."""

    every: bool = False
    """Should ``gradient`` be called for every gradient, also for finite ones?"""


class BlockGuards(Protocol):
    """What guards of a block need, in a framework whose programs run backward themselves."""

    backward: str = "backward()"
    """What runs backward in programs of this framework."""

    see_compiled: str = "call it without compiling it"
    """How compiled code can be made visible."""

    @abstractmethod
    def scaling(self, scaled: Callable[[Callable[[], bool]], None]) -> AbstractContextManager[object]:
        """Within this context scaled losses are recognised, whose overflow is not a finding.

        ``scaled`` is called when a loss is scaled, with a function that tells whether an overflow is handled.
        """

    def hear(self, tape: Any, over: Over) -> None:
        """A part of the block begins, with this tape. ``over`` is called at the end of each pass that left anything not
        finite. For frameworks in which that does not depend on the values at which backward began.
        """

    def after_backward(self, roots: Sequence[Any], over: Over) -> None:
        """A pass has begun at these roots; ``over`` is called when it ends, if it left anything that is not finite."""

    def held(self) -> Sequence[Update]:
        """The parameters of the program's models that are not finite now, in a framework that does not record them."""
        return ()

    @abstractmethod
    def needed(self, tape: Any, captures: Sequence[Any], tensors: Sequence[Any]) -> int:
        """How many captures of a tape went into the computation of these tensors."""


class Guards(Protocol):
    """What guards need of a framework."""

    blocks: Callable[[], BlockGuards] | None = None

    functions: Callable[[GuardListener], AbstractContextManager[object]] | None = None
    """Within this context, gradients of functions in this thread are reported."""

    @abstractmethod
    def listening(self, model: Any, listener: GuardListener) -> AbstractContextManager[object]:
        """Within this context, the calls of a model in this thread are reported."""
