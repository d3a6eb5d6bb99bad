"""The required part of a backend: a tape for functions, and its tensors as data.

A backend that supports only the function form implements these, and is listed in ``backprobe.backends.discover``:

- ``Backend``: ``name``, ``title``, ``arrays`` and ``tape(options)``
- ``Arrays``: ``is_tensor``, ``describe``, ``to_host`` and ``from_host`` of ``backprobe.backends.numpy.HostArrays``
- ``Tape``: for its tensors ``is_tensor``, ``is_floating``, ``is_differentiated``, ``describe`` and ``cotangent``;
  ``capture`` when a value gets its name, ``run`` for forward and backward, and ``release``

Everything else is a capability (``backprobe.backends.capabilities``). A capability is None if the framework lacks it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from types import CodeType, FrameType, MappingProxyType
from typing import Any, Protocol

from backprobe.backends.bridging import Bridges
from backprobe.backends.capabilities import KeptGradients, Models, ModuleObserver
from backprobe.backends.captures import Captures
from backprobe.backends.facts import Around, Backward, Failure, GraphFacts, Options, Ran
from backprobe.backends.graphs import GraphExecution
from backprobe.backends.guards import Guards
from backprobe.backends.heard_births import HearBirths
from backprobe.backends.memory import MemoryHearing
from backprobe.backends.recheck import Recheck
from backprobe.backends.replay import State
from backprobe.backends.second_order import GradientProgram, Product
from backprobe.backends.tensors import Arrays, Tensors
from backprobe.backends.trials import Trials
from backprobe.backends.useless import RepeatedCall, UselessGradients
from backprobe.backends.variations import Variations
from backprobe.backends.vectorized import Vectorized
from backprobe.backends.watches import FunctionWatches, Watches
from backprobe.record.reasons import Note, Reason
from backprobe.record.source import Source
from backprobe.source.followed_calls import Callables


class Tape(Tensors, Callables, Protocol):
    """One recording in a framework. It captures values while the program runs, and then differentiates."""

    @abstractmethod
    def capture(self, tensor: Any, around: Callable[[], Around]) -> Any:
        """Capture a tensor when it gets its name, with everything about its value and gradient that is known only now.

        ``around`` returns the captures from which the tensor was computed.
        """

    @abstractmethod
    def run(
        self,
        program: Callable[[Mapping[str, Any]], Ran],
        inputs: Mapping[str, Any],
        wrt: frozenset[str] | None,
        undo: list[Callable[[], None]],
    ) -> tuple[Any, Sequence[Backward]]:
        """Run a program forward, and backward from each of its roots. Returns its result, and the result of each pass.

        ``inputs`` are the inputs of a function that are made differentiable, by name. There are none if flags such as
        ``requires_grad`` decide what is differentiated. ``wrt`` limits them to some names. The program receives the
        differentiable inputs; ``undo`` receives functions that restore the leaves of the caller's own containers.
        Backward runs once from each root. If partials are requested, backward also runs from each capture to the
        captures that it was computed from.
        """

    @abstractmethod
    def release(self) -> None:
        """Release all tensors that the tape holds."""

    ordinary: frozenset[type] = frozenset()
    """The types of ordinary tensors. Such tensors are identified by ``id``, and reading them has no side effects."""

    disturbed: Callable[[], int] = int
    """Returns a nonzero number if something is installed that observes reads of tensors, even of ordinary ones."""

    @property
    def partly_tensors(self) -> tuple[type, ...]:
        """The types that include tensors and other values, such as arrays of random keys; their subclasses count
        too.
        """
        return ()

    opened: Callable[[Any], Any] | None = None
    """(value) -> the contents of a model of the framework's libraries, as a container; any other value is returned
    unchanged.
    """

    def identity(self, tensor: Any, /) -> int:
        """Return a number that is always the same for the same tensor."""
        return id(tensor)

    def quiet(self) -> AbstractContextManager[Any]:
        """Within this context, the tape's own operations are hidden from the user's modes and tensor subclasses."""
        return nullcontext()

    # Methods for optional capabilities.

    @property
    def tap(self) -> Callable[[Any], Any] | None:
        """(value) -> the value with which the program continues. It is always the same for the same tensor."""
        return None

    unfinished: Callable[[Sequence[Any]], Backward] | None = None
    """(captures) -> the facts known about these captures before backward has run."""

    undifferentiated: Callable[[], Sequence[tuple[Reason, Source]]] | None = None
    """The reads of values that cannot be differentiated, such as an integer Variable: the reason and line of each."""

    unnamed: Callable[[Sequence[Any]], Sequence[tuple[str, Any, int]]] | None = None
    """(captures) -> the differentiated tensors that the program has read and that are not among these captures.

    Each has the framework's name for the tensor, and the number of captures that were made before it was read.
    """


class BlockTape(Tape, Protocol):
    """A recording of a block of the program. The program runs backward itself, or leaves that to the tape."""

    @abstractmethod
    def listen(self, began: Callable[[Sequence[Any], bool], Sequence[Any]]) -> None:
        """Start the recording of the block. ``began`` captures the tensors from which the program runs backward.

        The second argument of ``began`` says whether that pass only returns its gradients, instead of adding them up in
        the leaves: see ``OwnPass``.
        """

    @abstractmethod
    def hides(self, code: CodeType) -> bool:
        """Should the functions that this code calls stay unobserved? They should if the framework traces or compiles
        them, or if they belong to backward.
        """

    def differentiates(self, code: CodeType) -> bool:
        """Is this the code of a function that runs backward?"""
        return False

    def cut_short(self) -> Sequence[Source | None]:
        """Return the lines of backward calls that began but did not finish. A line that is not known is None."""
        return ()

    kept_gradients: KeptGradients | None = None
    """Access to the gradients that are stored on tensors of the program; the program may read them."""

    useless: Any = None
    """The ``UselessGradients`` that observes the run, if requested."""

    hears: Collection[str] = frozenset()
    """The names of functions, of any kind, for which ``entered`` should be called."""

    def entered(self, frame: FrameType) -> None:
        """Called when a function with one of the names in ``hears`` is entered in the probing thread."""

    def unseen(self) -> Sequence[str]:
        """Return the compiled functions that have run. Nothing inside them can be observed."""
        return ()

    def not_followed(self) -> Sequence[Reason]:
        """Return notes on code that was not followed. By default this is a note for each function of ``unseen``."""
        return [Reason("compiled_not_followed", {"name": name}) for name in self.unseen()]

    @abstractmethod
    def has_history(self, capture: Any) -> bool:
        """Was the capture computed from differentiated values, so that backward may still pass through it? In
        TensorFlow also True for a trainable Variable.
        """

    def leads_on(self, captures: Sequence[Any]) -> bool:
        """May the program still run backward through these captures?

        It may if it has kept a graph for another pass, or if no pass has gone through the history of one of them.
        """
        return False

    @property
    @abstractmethod
    def progress(self) -> int:
        """A number that grows whenever more becomes known about gradients."""

    @abstractmethod
    def backward(self, captures: Sequence[Any]) -> Sequence[Backward]:
        """Return the results of backward for these captures so far: one result, or one for each root from which
        backward was run.
        """


class Blocks(Protocol):
    """The block form in a framework."""

    differentiates_at_end: bool = False
    """Does the tape run backward if the program has not done so? See ``AtEnd``."""

    takes_gradients: Collection[str] = frozenset()
    """Used if ``differentiates_at_end`` is False: names whose use shows that code computes gradients itself. A notebook
    cell with such code is run as a block.
    """

    @property
    def captures(self) -> Captures | None:
        """The capability to capture failed steps of blocks; None if there is none."""
        return None

    @abstractmethod
    def tape(self, options: Options) -> BlockTape:
        """Return the tape of a block. Raises Unsupported for options that this framework does not have."""

    @abstractmethod
    def refuse(self, target: Any, asked: str) -> None:
        """Raise Unsupported if a block around a call of this target would give wrong results."""

    @abstractmethod
    def observing(self, call: Any, observer: ModuleObserver) -> AbstractContextManager[object]:
        """Within this context a model reports to the observer when the program calls it, as in ``ModelCall.run``.

        ``call`` is a ``ModelCall`` of this framework. It provides the model, and the facts that are known about its
        modules.
        """


class Backend(Protocol):
    """A framework's adapter."""

    name: str
    """The name of the framework's module. The backend is used if that module is imported."""

    title: str
    """The name of the framework in messages."""

    arrays: Arrays
    """The backend's access to tensors as data."""

    strategies: Sequence[str] = ("edges",)
    """The ways in which gradients can be collected."""

    partials: bool = False
    """Can the tape compute local partials?"""

    gone: Mapping[str, str] = MappingProxyType({})
    """The capabilities that are switched off in this release of the framework, each with the missing private name."""

    models: Models | None = None
    blocks: Blocks | None = None
    graphs: Callable[[Any, Any], GraphExecution | None] | None = None
    """(target, session) -> the execution of a target that is itself a graph; None for any other target. Raises
    BadOption.
    """

    made: Callable[[Any], bool] | None = None
    """(callable) -> has the framework made it from another function, as a compiler or a transform does?"""

    state: type[State] = State
    """The class that saves and restores the state that a program of this framework changes: see
    ``backprobe.backends.replay``.
    """

    guards: Guards | None = None
    function_watches: FunctionWatches | None = None

    variations: Callable[[], Variations] | None = None
    """Creates an object that varies the arguments of a program, to measure the effect of rounding."""

    memory: Callable[[Any], MemoryHearing] | None = None
    """(model or None) -> an object that observes the memory that a block keeps."""

    vectorized: Vectorized | None = None
    """Runs a program on many samples in one vectorized run, and returns a gradient for each sample."""

    bridged: Callable[[Any, Any], Any | None] | None = None
    """(value, source) -> the value with the history of ``source`` added, which is a tensor or a container of tensors.

    The numbers of the value stay the same. Returns None if the value has no floating tensor that could get a history,
    for example a number or integers.
    """

    bridges: Callable[[], Bridges] | None = None
    """Creates an object that builds bridges in a whole program, and reports which gradients arrive through them."""

    uncompiled: Callable[[], AbstractContextManager[object]] | None = None
    """Within this context, functions that the program compiles run as plain Python, and can be observed."""

    checks_compiled: bool = False
    """Does a script without findings run again compiled, for errors that it raises only there? PyTorch's compiler takes
    too long for that.
    """

    traced_line: Callable[[BaseException], Source | None] | None = None
    """(error) -> the program's line of an error that is raised only because of ``uncompiled``; None for any other
    error.
    """

    recheck: Callable[[], Recheck] | None = None
    """Creates an object that records the calls of a program, and repeats them."""

    hear_births: HearBirths | None = None
    """Reports each operation that makes NaN from operands without NaN, or Inf from finite operands, in a run made for
    this purpose.
    """

    trials: Callable[[], Trials] | None = None
    """Creates an object that runs one program on many inputs."""

    errors: Callable[[BaseException, Any, Sequence[Any]], Failure | str | None] | None = None
    """(error, tape, captures) -> the cause of the error, as facts or as a sentence; None if it is not known."""

    useless: Callable[[], UselessGradients] | None = None
    """Creates an object that observes the iterations of a program for gradients that exist but are useless."""

    useless_in_call: Callable[[RepeatedCall], Sequence[Note]] | None = None
    """Finds useless gradients in one call of a function or model, which is made once or twice for this purpose.

    Raises whatever the program raises.
    """

    reduced: Callable[[Any], tuple[Any, ...] | None] | None = None
    """(object) -> its ``__reduce__`` value, if the object's own would fail in another process; None for any other
    object.
    """

    graph_facts: Callable[[Any, Any], GraphFacts] | None = None
    """(output, tensor) -> the facts that the graph alone shows about them."""

    second_order: bool | None = None
    """Can the gradients of a recording be differentiated again? None if they cannot."""

    hessian: Callable[[GradientProgram], Product] | None = None
    """(program) -> a function that multiplies the Hessian of the program's output by vectors. Raises NoGradient for a
    value without a gradient, and may raise Unsupported for one that was overwritten.

    The returned function raises BadOption for a vector of another shape.
    """

    derivatives: Collection[str] = frozenset()
    """The framework's functions that receive a function and differentiate it."""

    instead: Mapping[str, str] = MappingProxyType({})
    """By the name of a missing capability: the advice to print, if this framework has its own way to do the same."""

    edits: Mapping[str, Sequence[str]] = MappingProxyType({})
    """Replacements for code that cuts the graph, with which gradients flow: data for ``backprobe.remedies``.

    The key is a method or attribute by name (``.detach()``, ``.data``), a function by its path
    (``jax.lax.stop_gradient``; ``numpy.*`` is any function of that module), or, after ``with``, a context manager or
    decorator. The replacement is the owner (``{0}``), the first argument (``{1}``), the same call of another method
    (``{0}.rsample()``), the same call of another function or with one more keyword (``create_graph=True``), or another
    context manager. If there are several, each is tried, and the first that works is taken.
    """

    @property
    def watches(self) -> Watches | None:
        """The capability to watch models; None if there is none. It is a property, because importing its modules may
        take long.
        """
        return None

    @property
    def captures(self) -> Captures | None:
        """The capability to capture failed steps; None if there is none. It is a property, because importing its
        modules may take long.
        """
        return None

    @abstractmethod
    def tape(self, options: Options) -> Tape:
        """Return a tape that records one program."""

    def refuse(self, target: Any, asked: str) -> None:
        """Raise Unsupported for a function or model for which the function and model forms would give wrong results."""

    def refuse_argument(self, value: Any, asked: str) -> None:
        """Raise Unsupported for an argument, or a part of an argument, for which these forms would give wrong
        results.
        """
        self.refuse(value, asked)
