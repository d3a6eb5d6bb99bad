"""What a backend must have: a tape for functions, and its tensors as data.

To add a backend that can do the function form, implement these, and list it in ``backprobe.backends.discover``:

- ``Backend``: ``name``, ``title``, ``arrays`` and ``tape(options)``
- ``Arrays``: of ``backprobe.backends.immutable.HostArrays`` ``is_tensor``, ``describe``, ``to_host`` and ``from_host``
- ``Tape``: ``is_tensor``, ``is_floating``, ``is_differentiated``, ``describe`` and ``cotangent`` of its tensors;
  ``capture`` as a value gets its name, ``run`` for forward and backward, ``release``

Whatever else a framework can do is a capability (``backprobe.backends.capabilities``), None where it cannot.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import AbstractContextManager
from types import MappingProxyType
from typing import Any, Protocol

from backprobe.backends.capabilities import Block, Models, ModuleObserver, Program
from backprobe.backends.facts import Around, Backward, Effect, Failure, GraphFacts, Options, Ran
from backprobe.backends.recheck import Calls
from backprobe.backends.tensors import Arrays, Tensors


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


class BlockTape(Tape, Block, Protocol):
    """A recording of a block of the program, which differentiates by itself as it runs or leaves that to the tape."""


class Blocks(Protocol):
    """The block form in a framework."""

    @abstractmethod
    def tape(self, options: Options) -> BlockTape:
        """Raises Unsupported for options that this framework does not have."""
        ...

    @abstractmethod
    def refuse(self, target: Any, asked: str) -> None:
        """Raise Unsupported for a target that a block around it would get wrong."""
        ...

    @abstractmethod
    def observing(self, model: Any, observer: ModuleObserver) -> AbstractContextManager[object]:
        """Within this context a model that the program calls reports to the observer, as in ``ModelCall.run``."""
        ...


class Backend(Protocol):
    """A framework's adapter."""

    name: str
    """The module of the framework, by whose import it is found."""

    title: str
    """What messages call the framework."""

    arrays: Arrays
    """Its tensors as data."""

    strategies: Sequence[str] = ("edges",)
    """How gradients can be collected."""

    models: Models | None = None
    blocks: Blocks | None = None
    graphs: Callable[[Any, Any], Program | None] | None = None
    """(target, session) -> what runs a target that is a graph already, None for any other; raises BadOption."""

    recheck: Callable[[], Calls] | None = None
    """Makes what observes the calls of a program, and repeats them."""

    errors: Callable[[BaseException, Any, Sequence[Any]], Failure | str | None] | None = None
    """(error, tape, captures) -> what the error is about, in facts or in a sentence; None where nothing is known."""

    graph_facts: Callable[[Any, Any], GraphFacts] | None = None
    """(output, tensor) -> what the graph alone says of them."""

    second_order: Callable[[Any, Any, Any], Any] | None = None
    """(value, gradient, vector) -> the derivative of <gradient, vector> with respect to a value.

    Both are from a recording made with ``create_graph``. None where the value is held without its history. Raises
    BadOption for a vector of another shape.
    """

    instead: Mapping[str, str] = MappingProxyType({})
    """What to write instead of a capability that is None, where this framework has a way of its own."""

    @abstractmethod
    def tape(self, options: Options) -> Tape:
        """A recording of one program."""
        ...

    def refuse(self, target: Any, asked: str) -> None:
        """Raise Unsupported for a function or model that the function and model forms would get wrong."""
