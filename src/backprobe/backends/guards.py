"""The protocol of guards. A framework reports each finished call of a model, and each backward pass through such a
call.

As long as everything is finite, a guard reads only the outputs of calls and the gradients that passes leave. If one of
them is not finite, the call is repeated from the same inputs, buffers and random state, and the repetition is recorded.
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
"""Counts of NaN and Inf, by the name of the value that contains them."""

Over = Callable[[Found, bool], None]
"""A callback with two arguments: values that are not finite, and whether these are the roots of the pass. It gets the
gradients that a pass has left, and False. If all gradients are finite but the roots are not, it gets the roots, and
True.
"""

EVERYTHING = ("**", "**:*", "**:*()")


class NotTheSame(Exception):
    """A call was repeated, but the repetition differs from the call that failed."""

    def __init__(self, why: Reason) -> None:
        super().__init__(str(why))
        self.why = why


class Repeatable(Protocol):
    """A call that the program has made, and that can be repeated in the same state."""

    @property
    @abstractmethod
    def target(self) -> Any:
        """The model or function that was called."""

    @abstractmethod
    def why_not_again(self) -> Reason | None:
        """Return why the call cannot be repeated; None if it can."""

    @abstractmethod
    def restored(self) -> AbstractContextManager[object]:
        """Within this context buffers, random state and modes are those with which the call began.

        State that a ``Replay`` restores is not restored here: see ``again``.
        """

    @abstractmethod
    def arguments(self) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
        """Return the arguments of the call, in which the tensors are new leaves."""


@contextmanager
def again(backend: HasState, failed: Repeatable) -> Iterator[None]:
    """Within this context the failed call can be repeated in its original state; afterwards the present state is
    restored. Raises NotTheSame if the repetition has taken items from an iterator, a queue or a file.
    """
    args, kwargs = failed.arguments()
    replay = Replay(backend, failed.target, args, kwargs, draws_anew=False)
    with replay.run(), failed.restored():
        yield
    for one in replay.taken.values():
        raise NotTheSame(Reason("repeat_takes", {"kind": kind(one)}))


class GuardedCall(Repeatable, Protocol):
    """One call of the guarded model, or of one of its modules that the program called directly."""

    module: Any
    """The module that was called."""

    @property
    def target(self) -> Any:
        return self.module

    path: str
    """The path of the called module in the model."""

    select: Sequence[str] = EVERYTHING
    """The patterns of the values that are recorded when the call is repeated."""

    output: tuple[str | None, Any] | None = None
    """For frameworks without blocks: the path of an output that is not finite, and a tensor of ones in the shape of
    that output.
    """

    backward: str = "backward()"
    """The spelling of a backward pass in programs of this framework."""

    see_loss: str = "with bp.guard(): without a model around the same lines, which sees what the loss is computed from"
    """The advice if NaN or Inf comes from code after the call."""

    see_lines: str = "with bp.probe(model, nonfinite=True) as rec: around this call, and bp.explain(rec)"
    """The advice if the call cannot be repeated."""

    def failed_with(self, outputs: Mapping[str, Any], bad: Found) -> None:
        """Called when the call has returned these outputs. ``bad`` are those that are not finite."""
        return

    def again(self) -> None:
        """Repeat the call, forward only."""
        args, kwargs = self.arguments()
        self.module(*args, **kwargs)


class PassedCall(GuardedCall, Protocol):
    """A call that a backward pass has reached, in a framework that differentiates a program after it has run."""

    gradients: dict[str, Any]
    """The gradients that the running pass has brought to the outputs of the call, by output path."""

    without: Collection[str] = ()
    """The paths of outputs whose gradients are left out when the call is repeated."""

    def outputs_and_gradients(self, outputs: Mapping[str, Any]) -> tuple[list[Any], list[Any]]:
        """Return those outputs that received a gradient and are not in ``without``, and these gradients."""
        paths = [path for path in self.gradients if path in outputs and path not in self.without]
        return [outputs[path] for path in paths], [self.gradients[path] for path in paths]

    floating: Callable[[Any], Mapping[str, Any]]
    """(result of a call) -> the floating tensors in it, by path."""

    unfit: Callable[[Mapping[str, Any]], Found]
    """(tensors by path) -> the counts of NaN and Inf in those that contain any."""

    begun_with: Callable[[Sequence[Any], Sequence[Any]], Any]
    """(gradients, outputs) -> a scalar 0 whose backward pass starts at these outputs with these gradients."""

    def arrived(self) -> Found:
        """Return the counts for those gradients of outputs that contain NaN or Inf, by path. The gradients are those of
        the pass that has just ended.
        """
        return self.unfit(self.gradients)

    def seeded(self, returned: Any) -> Any:
        """Return a scalar computed from the outputs of the repeated call. Its backward starts with the gradients of the
        original pass.
        """
        outputs, gradients = self.outputs_and_gradients(self.floating(returned))
        return self.begun_with(gradients, outputs)


class GuardedGradient(Repeatable, Protocol):
    """A gradient that the program has computed, in a framework that differentiates functions."""

    function: Any
    """The function that is differentiated."""

    @property
    def target(self) -> Any:
        return self.function

    wrt: frozenset[str]
    """The names of the arguments with respect to which the function is differentiated."""

    of: str | Callable[[Any], Any] | None
    """Selects the differentiated output in the function's result, as ``of=`` does; None if the result is the output."""

    cotangent: Any = None
    """The cotangent of an output that is not a single number."""

    asked: str
    """The spelling of the request, such as ``jax.grad(loss)``."""

    see_lines: str
    """The advice if the gradient cannot be computed again."""

    trained: frozenset[str] | None = None
    """The names of the differentiated values; None if they are not known."""

    left: Mapping[str, Any]
    """The function's value, or its gradients by the names that a recording uses."""

    @abstractmethod
    def unused(self) -> Mapping[str, Source | None]:
        """Return the differentiated values that the function does not use, by name; empty if this is not known.

        Each has the line at which the function reads the same array from elsewhere, such as a global variable; None if
        there is no such line.
        """

    @abstractmethod
    def stopping(self, names: Collection[str]) -> Mapping[str, Sequence[tuple[str, Source | None]]]:
        """Return those of these names whose derivative stops on every path to the output.

        Each has the operations that stop it: the framework's names of the operations, and their lines in the program.
        """

    @abstractmethod
    def useless(self, suspicious: Collection[str]) -> Observed:
        """Return the notes on gradients that exist but are useless, and the places where the gradients of
        ``suspicious`` names vanish on their way.

        Empty if this is not known.
        """

    is_undecided: bool = False
    """Has exactly one step been made since the function's previous gradient, and did that step change next to
    nothing?
    """

    def still(self) -> Sequence[Note]:
        """Return notes on the steps between gradients of this function that change next to nothing."""
        return ()


def _nothing(*told: Any) -> None: ...


@dataclass(frozen=True)
class GuardListener:
    """The callbacks of a guard. Exceptions that they raise are raised from the program's call."""

    is_read: Callable[[str], bool]
    """(full name of an output, or path of a parameter) -> should it be examined?"""

    called: Callable[[GuardedCall, Found], None] = _nothing
    """(a call that has just ended, those of its outputs that are not finite)"""

    differentiated: Callable[[Sequence[PassedCall], Found], None] = _nothing
    """(the calls that a backward pass has reached, last call first; the gradients that are not finite)"""

    gradient: Callable[[GuardedGradient, Found, bool], None] = _nothing
    """(a computed gradient; the values that are not finite; True if these are the function's value, not its
    gradient)
    """

    captures: bool = False
    """Should calls be kept so that they can be saved to a file? Then inputs before the call and outputs are kept."""

    every: bool = False
    """Should ``gradient`` be called for every gradient, including finite ones?"""


class BlockGuards(Protocol):
    """The operations that guards of a block need, in a framework whose programs run backward themselves."""

    backward: str = "backward()"
    """The spelling of a backward pass in programs of this framework."""

    see_compiled: str = "call it without compiling it"
    """The advice for making compiled code visible."""

    @abstractmethod
    def scaling(self, scaled: Callable[[Callable[[], bool]], None]) -> AbstractContextManager[object]:
        """Within this context scaled losses are recognised, because their overflow is not an error.

        ``scaled`` is called when a loss is scaled, with a function that returns whether the program handles an
        overflow.
        """

    def hear(self, tape: Any, over: Over) -> None:
        """Called when a part of the block begins, with the tape of that part. ``over`` is called at the end of each
        pass that left values that are not finite. Used by frameworks that can examine a pass without knowing its roots.
        """

    def after_backward(self, roots: Sequence[Any], over: Over) -> None:
        """Called when a pass has begun at these roots. ``over`` is called when the pass ends, if it left values that
        are not finite.
        """

    def held(self) -> Sequence[Update]:
        """Return the parameters of the program's models that are not finite now, in a framework that does not record
        parameters.
        """
        return ()

    @abstractmethod
    def needed(self, tape: Any, captures: Sequence[Any], tensors: Sequence[Any]) -> int:
        """Return the number of captures of a tape that these tensors were computed from."""


class Guards(Protocol):
    """The operations of a framework that guards need."""

    blocks: Callable[[], BlockGuards] | None = None

    functions: Callable[[GuardListener], AbstractContextManager[object]] | None = None
    """Within this context, gradients of functions that this thread computes are reported."""

    @abstractmethod
    def listening(self, model: Any, listener: GuardListener) -> AbstractContextManager[object]:
        """Within this context, the calls of a model in this thread are reported."""
