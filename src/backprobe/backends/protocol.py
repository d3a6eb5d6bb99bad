"""What backprobe asks of a framework."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Any, Protocol

from backprobe.backends.facts import (
    Around,
    Backward,
    Description,
    Effect,
    Failure,
    GraphFacts,
    Node,
    Options,
    Ran,
    Summary,
)
from backprobe.backends.recheck import Calls
from backprobe.record.nonfinite import Nonfinite
from backprobe.record.reasons import Note, Reason
from backprobe.record.source import Source


class Tensors(Protocol):
    """What choosing the output asks of a framework's tensors."""

    def is_tensor(self, value: Any) -> bool: ...

    def is_floating(self, tensor: Any) -> bool: ...

    def is_complex(self, tensor: Any) -> bool: ...

    def size(self, tensor: Any) -> int: ...

    def describe(self, tensor: Any) -> Description: ...

    def is_differentiated(self, value: Any) -> bool:
        """Is it a tensor that requires a gradient?"""
        ...

    def cotangent(self, output: Any, cotangent: Any) -> Any:
        """The cotangent as a tensor of the output's dtype and device."""
        ...

    def ones_like(self, output: Any) -> Any:
        """The cotangent that sums an output."""
        ...


class Tape(Tensors, Protocol):
    """One recording in a framework: captures values while the program runs, then differentiates."""

    exchanges: bool
    """Must the program go on with ``tap(tensor)`` in the place of each tensor it makes?"""

    def run(
        self,
        program: Callable[[Mapping[str, Any]], Ran],
        inputs: Mapping[str, Any],
        wrt: frozenset[str] | None,
        undo: list[Callable[[], None]],
    ) -> tuple[Any, Backward]:
        """Run a program forward and backward: its result, and what backward gave.

        ``inputs`` are what is to be differentiated, by name: those of a function, or none where the flags of the
        framework's own tensors stand. ``wrt`` names some of them. The program is given them made differentiable; what
        puts back the old leaves of the caller's own containers is added to ``undo``. Backward runs once, and once more
        from each capture towards its inputs alone where partials are asked for.
        """
        ...

    def tap(self, value: Any) -> Any:
        """What the program goes on with in the place of this value: the same for the same tensor."""
        ...

    def identity(self, tensor: Any) -> int:
        """The same number for what is the same tensor."""
        ...

    def staged(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Call a function; where the framework traces, as a whole, so that what is inside its own loops is seen."""
        ...

    def is_lost(self, capture: Any) -> bool:
        """Was this captured in a run of a function that the framework has thrown away, to trace it again?"""
        ...

    def quiet(self) -> AbstractContextManager[Any]:
        """Within this context, what the tape does with tensors is not seen by modes or subclasses of the user's."""
        ...

    def version(self, tensor: Any) -> int:
        """A number that changes when the tensor's memory is written."""
        ...

    def capture(self, tensor: Any, around: Callable[[], Around], previous: Any, through: bool) -> Any:
        """Take hold of a tensor as it gets its name: what can be known only now, about its value and gradient.

        ``around`` tells what it was computed from, ``previous`` is the capture of the same object before it was
        written, ``through`` whether that write went through this object.
        """
        ...

    def look_again(self, at: tuple[str, int] | None = None) -> None:
        """The program has run on: what was captured may have become differentiable since, or have been written to.

        ``at`` is the file and line of the statement that ran, where that is known.
        """
        ...

    def seen_again(self, capture: Any) -> None:
        """The same for one capture, whose tensor has got another name."""
        ...

    def repeated(self) -> Hashable | None:
        """The part of the program that is being computed again, in the course of backward; None in its first run."""
        ...

    def to_be_repeated(self) -> Hashable | None:
        """The part that runs now without a history, and will be computed again with one."""
        ...

    def computed_again(self, capture: Any, again: Any) -> None:
        """A capture of the first run, and the one that has its history."""
        ...

    def effect(self, function: Any, flagged: bool) -> Effect:
        """What calling ``function`` may do; ``flagged`` if the call has a keyword such as ``out`` or ``inplace``."""
        ...

    def is_compiled(self, function: Any) -> bool:
        """Is it a callable whose code the framework fixes or traces, which must be called as it is?"""
        ...

    def called(self, function: Any, modules_too: bool) -> tuple[Any, Callable[..., Any]] | None:
        """For what the framework calls in a way of its own: the function that it runs, and how to run another instead.

        Such are its modules (where ``modules_too``) and its transformations. None for anything else.
        """
        ...

    def higher_order(self, function: Any) -> Callable[..., Any] | None:
        """For a function of the framework that calls functions given to it: what to call in its place. Else None."""
        ...

    def targets(self, function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Any]:
        """The tensors that this call may write to."""
        ...

    def writing(self, tensor: Any) -> None:
        """The program is about to write to this tensor: save what would be lost."""
        ...

    def written(self, tensor: Any) -> None:
        """The program has written to it."""
        ...

    def expose(self, tensor: Any) -> None:
        """The program takes a handle through which it may write unseen."""
        ...

    def unfinished(self, captures: Sequence[Any]) -> Backward | None:
        """What is known of captures before backward has run; None where the framework tells nothing before."""
        ...

    def unnamed(self, captures: Sequence[Any]) -> Sequence[tuple[str, Any, int]]:
        """What the program has read and is differentiated, of which none of these captures is.

        Each with what the framework calls it, and how many of the captures were made before it was read. Nothing where
        the framework tells of operations in backward, and so of what no entry holds, or differentiates arguments alone.
        """
        ...

    def overwritten(self) -> Sequence[Any]:
        """The captures whose values were written, since this was asked last, where the framework does not look."""
        ...

    def detached(self) -> Sequence[Any]:
        """The captures whose tensors have lost their history, since this was asked last, and kept their numbers."""
        ...

    def release(self) -> None:
        """Keep nothing any longer."""
        ...


class Once:
    """What a ``Tape`` has to say that looks at the program when it is over, and computes nothing again."""

    def look_again(self, at: tuple[str, int] | None = None) -> None:
        """What is to be known is known when the program is over."""

    def seen_again(self, capture: Any) -> None:
        """As in ``look_again``."""

    def unfinished(self, captures: Sequence[Any]) -> Backward | None:
        return None

    def unnamed(self, captures: Sequence[Any]) -> Sequence[tuple[str, Any, int]]:
        return ()

    def overwritten(self) -> Sequence[Any]:
        return ()

    def detached(self) -> Sequence[Any]:
        return ()

    def repeated(self) -> Hashable | None:
        return None

    def to_be_repeated(self) -> Hashable | None:
        return None

    def computed_again(self, capture: Any, again: Any) -> None:
        """Nothing is."""


class Differentiator(Protocol):
    """What differentiates a block when it is over, where the program does not do so itself."""

    def follow(self, tensors: Sequence[Any]) -> None:
        """The program is about to read these, which were there before it: they are differentiated from here on."""
        ...

    def made(self, tensor: Any) -> int:
        """When the block computed this, as a number that grows; 0 for what it did not compute."""
        ...

    def differentiate(self, ran: Ran) -> None:
        """The program is over: run backward, once."""
        ...


class BlockTape(Tape, Protocol):
    """A recording of a block of the program, which differentiates by itself as it runs or leaves that to the tape."""

    differentiator: Differentiator | None
    """None where the program runs backward itself."""

    def listen(self, began: Callable[[Sequence[Any]], Sequence[Any]]) -> None:
        """The block begins. ``began`` is told of the tensors that the program runs backward from, and captures them."""
        ...

    def hides(self, code: CodeType) -> bool:
        """Is what this code calls not to be watched: traced or compiled by the framework, or a part of backward?"""
        ...

    def unseen(self) -> Sequence[str]:
        """The compiled functions that have run, and what ran inside cannot be seen."""
        ...

    def entering(self, frame: FrameType) -> None:
        """A function of the user's is entered. What ran until now, the line did that calls it."""
        ...

    def has_history(self, capture: Any) -> bool:
        """Was it computed from what is differentiated, so that backward may yet come through it?"""
        ...

    @property
    def progress(self) -> int:
        """A number that grows when more is known about gradients."""
        ...

    def backward(self, captures: Sequence[Any]) -> Backward:
        """What backward has given these captures so far."""
        ...


class Arrays(Protocol):
    """The tensors of a recording as data: what showing and saving need of a framework."""

    name: str

    def is_tensor(self, value: Any) -> bool: ...

    def describe(self, tensor: Any) -> Description: ...

    def summarize(self, tensor: Any) -> Summary | None: ...

    def nonfinite(self, tensors: Sequence[Any]) -> list[Nonfinite | None]:
        """Judge many tensors at once, with one transfer from a device; None for those that hold no numbers to judge."""
        ...

    def numbers(self, tensor: Any) -> Any:
        """Its numbers as a NumPy array in double precision; None where it holds none that can be read."""
        ...

    def to_text(self, tensor: Any) -> str: ...

    def encode(self, tensor: Any, blobs: dict[str, Any], seen: dict[Any, str]) -> dict[str, Any]:
        """A tensor as plain data; the bytes that it lies on go into ``blobs``, once where tensors share them."""
        ...

    def decode(self, layout: Mapping[str, Any], blobs: Mapping[str, Any]) -> Any: ...


class Backend(Arrays, Protocol):
    """A framework's adapter."""

    def is_model(self, value: Any) -> bool: ...

    def open(self, options: Options) -> Tape:
        """Raises Unsupported for options that this framework does not have."""
        ...

    def open_block(self, options: Options) -> BlockTape:
        """Raises Unsupported where this framework's programs cannot be recorded in a block, or without an option."""
        ...

    def calls(self) -> Calls:
        """What hears of the calls of a program, and makes them again. Raises Unsupported where that can't be."""
        ...

    def refuse(self, target: Any, asked: str) -> None:
        """Raise Unsupported for a function or model that the function and model forms would get wrong."""
        ...

    def refuse_in_block(self, target: Any, asked: str) -> None:
        """The same for what a block is about."""
        ...

    def observing(self, model: Any, observer: ModuleObserver) -> AbstractContextManager[object]:
        """Within this context a model that the program calls reports to the observer, as in ``ModelCall.run``."""
        ...

    def second(self, value: Any, gradient: Any, vector: Any) -> Any:
        """The derivative of <gradient, vector> towards a value, both from a recording made with ``create_graph``.

        None where the value is held without its history. Raises BadOption for a vector of another shape.
        """
        ...

    def explain_error(self, error: BaseException) -> str | None:
        """What an error raised by the framework's backward pass means for a probe, if backprobe knows more."""
        ...

    def failure(self, error: BaseException, tape: Tape, captures: Sequence[Any]) -> Failure | None:
        """What an error is about, of the values that a program has captured; None where nothing is known of it."""
        ...

    def graph_facts(self, output: Any, tensor: Any) -> GraphFacts:
        """What the graph alone tells of an output and a tensor. Raises Unsupported where tensors have no graph."""
        ...

    def call(self, model: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> ModelCall:
        """A call of a model that is about to be made."""
        ...

    def buffers(self, model: Any) -> Mapping[str, Any]:
        """What a model computes with and no entry is made of, by path: the running statistics of a normalisation."""
        ...

    def program(self, target: Any, session: Any) -> Program | None:
        """For a target that is a graph already: what runs it. None for any other. Raises BadOption, Unsupported."""
        ...


class ModelCall(Protocol):
    """One call of a model."""

    inputs: Mapping[str, Any]
    """What of the model and of its arguments ``Tape.run`` is to make differentiable; empty where flags stand."""

    forward: Any
    """The function of the model's own that this call runs."""

    def module_paths(self) -> Iterable[str]:
        """The paths of the modules that can run, the model itself being ""."""
        ...

    def parameter_paths(self) -> Iterable[str]: ...

    def hidden_paths(self) -> Mapping[str, Reason]:
        """The modules that run where nothing of them can be seen, and why."""
        ...

    def run(self, inputs: Mapping[str, Any], observer: ModuleObserver) -> Any:
        """Call the model; in the course of it its parameters and modules report to the observer."""
        ...

    def finish(self, returned: Any, later: list[Callable[[], None]]) -> Any:
        """The call is over: the model's result, of what ``run`` returned.

        What can be done only when the program has been differentiated is added to ``later``.
        """
        ...


class Program(Tensors, Protocol):
    """One run of a target that is a graph already. Its methods are called in this order."""

    name: str
    """What the target is called in messages."""

    arrays: str
    """Which of ``ARRAYS`` what it gives are."""

    framework: str
    """The framework whose graph it is."""

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Take the arguments of the run. Raises BadOption."""
        ...

    def target(self, of: Any) -> tuple[Any, Any]:
        """What the run returns, symbolically, and ``of`` as it is to be applied to that."""
        ...

    def nodes(self, output: Any) -> Sequence[Node]:
        """Every value that the graph has a name for, in the order of execution."""
        ...

    def run(self, cotangent: Any, wanted: Sequence[int], options: Options) -> tuple[Any, Any, Backward]:
        """Run once, forward and backward: the result, what was differentiated, and what became of the wanted nodes."""
        ...

    def source(self, node: int) -> Source | None:
        """The line of the user's that made a node."""
        ...

    def notes(self) -> Sequence[Note]:
        """What could not be seen."""
        ...

    def explain_error(self, error: BaseException) -> str | None:
        """What an error of the run means, if backprobe knows more."""
        ...


@dataclass(frozen=True)
class ModuleObserver:
    """What the model form wants to hear: which forwards to exchange for reporting ones, and what modules return."""

    parameter: Callable[[str, Any], Any]  # (path, parameter) -> what takes its place, the same where nothing does
    wants_output: Callable[[str], bool]
    wants_locals: Callable[[str], bool]
    rewritten: Callable[[str, Any], Any]  # (path, forward) -> reporting forward, or None
    returned: Callable[[str, Any], Any]  # (path, what the module returned) -> what takes its place
    writing: Callable[[Any], None]  # (inputs of a module that works in place and is about to run)
    written: Callable[[Any], None]  # (inputs of a module that has worked in place)
    given: Callable[[Any], None] = lambda inputs: None  # (inputs of the model itself, which is about to run)
