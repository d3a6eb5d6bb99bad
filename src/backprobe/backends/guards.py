"""The protocol of guards: a framework reports each finished call of a model, and each backward pass through it.

A guard reads little while all is well: what a call returns, and the gradients that a pass leaves. If one is not finite,
the call can be made again, from the same inputs, buffers and random state, and that is recorded.
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
"""(the gradients that a pass has left and that are not finite; or, where those are finite and what the pass began at
is not, that, and True)"""

EVERYTHING = ("**", "**:*", "**:*()")


class NotTheSame(Exception):
    """A call that was made again is not the call that failed."""

    def __init__(self, why: Reason) -> None:
        super().__init__(str(why))
        self.why = why


class Repeatable(Protocol):
    """What the program has run, and can be run again as it was."""

    @property
    @abstractmethod
    def target(self) -> Any:
        """The model or function that has run."""

    @abstractmethod
    def why_not_again(self) -> Reason | None:
        """Why it cannot be run again; None where it can."""

    @abstractmethod
    def restored(self) -> AbstractContextManager[object]:
        """Within this context buffers, random state and modes are those that it began with.

        Not put back after it are those that a ``Replay`` puts back: see ``again``.
        """

    @abstractmethod
    def arguments(self) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
        """Its arguments, as leaves of their own."""


@contextmanager
def again(backend: HasState, failed: Repeatable) -> Iterator[None]:
    """Within this context what failed can be run as it ran, and after it everything is as it was. Raises NotTheSame."""
    args, kwargs = failed.arguments()
    replay = Replay(backend, failed.target, args, kwargs, draws_anew=False)
    with replay.run(), failed.restored():
        yield
    for one in replay.taken.values():
        raise NotTheSame(Reason("repeat_takes", {"kind": kind(one)}))


class GuardedCall(Repeatable, Protocol):
    """One call of the guarded model, or of a module of it that the program called by itself."""

    module: Any
    """What was called."""

    @property
    def target(self) -> Any:
        return self.module

    path: str
    """Where it is in the model."""

    select: Sequence[str] = EVERYTHING
    """What is recorded when it is made again."""

    output: tuple[str | None, Any] | None = None
    """The path of an output that is not finite, and ones of its shape, in a framework that has no blocks."""

    backward: str = "backward()"
    """What runs the backward of programs in this framework."""

    see_loss: str = "with bp.guard(): without a model around the same lines, which sees what the loss is computed from"
    """What to write where NaN or Inf comes from behind the call."""

    see_lines: str = "with bp.probe(model, nonfinite=True) as rec: around this call, and bp.explain(rec)"
    """What to write where the call cannot be made again."""

    def failed_with(self, outputs: Mapping[str, Any], bad: Found) -> None:
        """The call has returned these outputs, of which some are not finite."""
        return

    def again(self) -> None:
        """Make the call again, forward alone."""
        args, kwargs = self.arguments()
        self.module(*args, **kwargs)


class PassedCall(GuardedCall, Protocol):
    """A call that a pass of backward has come to, in a framework that differentiates what has run."""

    gradients: dict[str, Any]
    """What the pass that runs has brought to its outputs, by their paths."""

    without: Collection[str] = ()
    """Outputs whose gradients are left out as it is made again."""

    def outputs_and_gradients(self, outputs: Mapping[str, Any]) -> tuple[list[Any], list[Any]]:
        """Those of the call's outputs that a gradient has come to, and these."""
        paths = [path for path in self.gradients if path in outputs and path not in self.without]
        return [outputs[path] for path in paths], [self.gradients[path] for path in paths]

    floating: Callable[[Any], Mapping[str, Any]]
    """The floating numbers in what a call has returned, by their paths."""

    unfit: Callable[[Mapping[str, Any]], Found]
    """Of these numbers, those that hold NaN or Inf."""

    begun_with: Callable[[Sequence[Any], Sequence[Any]], Any]
    """(gradients, outputs) -> a zero whose backward begins at these outputs with these gradients."""

    def arrived(self) -> Found:
        """The gradients that came to its outputs in the pass that has just ended, by path, that are not finite."""
        return self.unfit(self.gradients)

    def seeded(self, returned: Any) -> Any:
        """A scalar of what the call returned now, whose backward begins with the gradients that came to it."""
        outputs, gradients = self.outputs_and_gradients(self.floating(returned))
        return self.begun_with(gradients, outputs)


class GuardedGradient(Repeatable, Protocol):
    """A gradient that the program has asked for, in a framework that differentiates functions."""

    function: Any
    """What is differentiated."""

    @property
    def target(self) -> Any:
        return self.function

    wrt: frozenset[str]
    """The arguments with respect to which it is."""

    of: str | Callable[[Any], Any] | None
    """The output in what the function returns, as ``of=`` takes it; None where that is all of it."""

    cotangent: Any = None
    """That of an output which is not one number."""

    asked: str
    """How it was asked for, as in ``jax.grad(loss)``."""

    see_lines: str
    """What to write where it cannot be run again."""

    trained: frozenset[str] | None = None
    """The names of what the gradient is of, where that is not all that the arguments hold; None before it has come."""

    @abstractmethod
    def unused(self) -> set[str]:
        """The names of what is differentiated and nothing in the function is computed from; none if not known."""

    @abstractmethod
    def stopping(self, names: Collection[str]) -> Mapping[str, Sequence[tuple[str, Source | None]]]:
        """Of these, those whose derivative stops on every way to the output, each with the operations that stop it: the
        names that the framework has for them, and their lines in the program.
        """

    @abstractmethod
    def useless(self, suspicious: Collection[str]) -> Observed:
        """What of the gradient is there and useless; of these names, where what is on its way to them comes to nothing.

        Nothing where that is not known.
        """

    is_undecided: bool = False
    """Was one step made from the last gradient of the function to this one, and one that changes next to nothing?"""

    def still(self) -> Sequence[Note]:
        """The notes on steps from one gradient of the function to the next that change next to nothing."""
        return ()


def _nothing(*told: Any) -> None: ...


@dataclass(frozen=True)
class GuardListener:
    """What a guard is told. Whatever these raise comes out of the program's call."""

    is_read: Callable[[str], bool]
    """(full name of an output or path of a parameter) -> should it be looked at?"""

    called: Callable[[GuardedCall, Found], None] = _nothing
    """(a call that has just ended, the outputs that are not finite)"""

    differentiated: Callable[[Sequence[PassedCall], Found], None] = _nothing
    """(the calls that a pass of backward has come to, the last call first; the gradients that are not finite)"""

    gradient: Callable[[GuardedGradient, Found, bool], None] = _nothing
    """(a gradient that was asked for; what is not finite; is that the value of the function, and not its gradient?)"""

    captures: bool = False
    """May a call become a file? Then it is known what it was given before it ran, and what it returned."""

    every: bool = False
    """Is ``gradient`` to be called of each gradient, also of one that is finite?"""


class BlockGuards(Protocol):
    """What guards of a block need, in a framework whose programs run backward themselves."""

    backward: str = "backward()"
    """What runs the backward of programs in this framework."""

    see_compiled: str = "call it without compiling it"
    """What lets compiled code be looked at."""

    @abstractmethod
    def scaling(self, scaled: Callable[[Callable[[], bool]], None]) -> AbstractContextManager[object]:
        """Within this context losses that are scaled are known: their overflow is not a finding.

        ``scaled`` is called as one is scaled, with what says whether an overflow is handled.
        """

    def hear(self, tape: Any, over: Over) -> None:
        """A part of the block begins, with this tape: ``over`` is called as each pass ends that has left something
        which is not finite, in a framework where that does not go by what backward has begun at.
        """

    def after_backward(self, roots: Sequence[Any], over: Over) -> None:
        """A pass has begun at these; ``over`` is called as it ends, if it has left something that is not finite."""

    def held(self) -> Sequence[Update]:
        """The parameters of the program's models that are not finite now, in a framework that does not record them."""
        return ()

    @abstractmethod
    def needed(self, tape: Any, captures: Sequence[Any], tensors: Sequence[Any]) -> int:
        """How many of the captures of a tape these tensors were computed from."""


class Guards(Protocol):
    """What guards need of a framework."""

    blocks: Callable[[], BlockGuards] | None = None

    functions: Callable[[GuardListener], AbstractContextManager[object]] | None = None
    """Within its context the gradients of functions are heard, in this thread."""

    @abstractmethod
    def listening(self, model: Any, listener: GuardListener) -> AbstractContextManager[object]:
        """Within this context the calls of a model are heard, in this thread."""
