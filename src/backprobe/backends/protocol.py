"""The required part of a backend: a tape for functions, and its tensors as data.

To add a backend that supports the function form, implement these, and list it in ``backprobe.backends.discover``:

- ``Backend``: ``name``, ``title``, ``arrays`` and ``tape(options)``
- ``Arrays``: ``is_tensor``, ``describe``, ``to_host`` and ``from_host`` of ``backprobe.backends.numpy.HostArrays``
- ``Tape``: for its tensors ``is_tensor``, ``is_floating``, ``is_differentiated``, ``describe`` and ``cotangent``;
``capture`` when a value gets its name, ``run`` for forward and backward, and ``release``

Everything else is a capability (``backprobe.backends.capabilities``), and None if the framework lacks it.
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
    """One recording in a framework: captures values while the program runs, then differentiates."""

    @abstractmethod
    def capture(self, tensor: Any, around: Callable[[], Around]) -> Any:
        """Capture a tensor when it gets its name: all about its value and gradient that can only be known now.

        ``around`` returns what it was computed from.
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

        ``inputs`` are what is differentiated, by name: inputs of a function, or none if the flags of the framework's
        own tensors decide. ``wrt`` names some of them. The program receives them made differentiable; ``undo`` gets
        functions that restore the leaves of the caller's own containers. Backward runs once from each root. If partials
        are requested, it also runs from each capture, to its inputs only.
        """

    @abstractmethod
    def release(self) -> None:
        """Release all that is held."""

    ordinary: frozenset[type] = frozenset()
    """Types of ordinary tensors: they are identified by ``id``, and reading them has no side effects."""

    disturbed: Callable[[], int] = int
    """Is anything installed that notices reads of tensors, even of ordinary ones? 0 if not."""

    @property
    def partly_tensors(self) -> tuple[type, ...]:
        """Types that include both tensors and other values, such as arrays of random keys; also their subclasses."""
        return ()

    opened: Callable[[Any], Any] | None = None
    """(value) -> the contents of a model of the framework's libraries, as a container; any other value unchanged."""

    def identity(self, tensor: Any, /) -> int:
        """A number that is the same for the same tensor."""
        return id(tensor)

    def quiet(self) -> AbstractContextManager[Any]:
        """Within this context, the user's modes and tensor subclasses do not see what the tape does."""
        return nullcontext()

    # capabilities

    @property
    def tap(self) -> Callable[[Any], Any] | None:
        """(value) -> the value with which the program continues: always the same for the same tensor."""
        return None

    unfinished: Callable[[Sequence[Any]], Backward] | None = None
    """(captures) -> what is known about them before backward has run."""

    undifferentiated: Callable[[], Sequence[tuple[Reason, Source]]] | None = None
    """What the program has read that cannot be differentiated, such as an integer Variable: why, and where."""

    unnamed: Callable[[Sequence[Any]], Sequence[tuple[str, Any, int]]] | None = None
    """(captures) -> differentiated tensors that the program has read and that are not among these captures.

    Each with the framework's name for it, and the number of captures that were made before it was read.
    """


class BlockTape(Tape, Protocol):
    """A recording of a block of the program, which differentiates while it runs, or leaves that to the tape."""

    @abstractmethod
    def listen(self, began: Callable[[Sequence[Any], bool], Sequence[Any]]) -> None:
        """The block begins. ``began`` captures the tensors from which the program runs backward.

        It is also told whether the gradients of that pass do not add up in the leaves: see ``OwnPass``.
        """

    @abstractmethod
    def hides(self, code: CodeType) -> bool:
        """Should code called from here stay unobserved, because the framework traces or compiles it, or it belongs to
        backward?
        """

    def differentiates(self, code: CodeType) -> bool:
        """Is it the code of a function that runs backward?"""
        return False

    def cut_short(self) -> Sequence[Source | None]:
        """The lines of those backward calls that began but did not finish."""
        return ()

    kept_gradients: KeptGradients | None = None
    """The gradients that tensors of the program keep, which the program may read."""

    useless: Any = None
    """The ``UselessGradients`` that observes the run, if requested."""

    hears: Collection[str] = frozenset()
    """The names of functions, of any kind, for which ``entered`` should be called."""

    def entered(self, frame: FrameType) -> None:
        """A function with one of these names is entered in the probing thread."""

    def unseen(self) -> Sequence[str]:
        """The compiled functions that have run, inside which nothing can be observed."""
        return ()

    def not_followed(self) -> Sequence[Reason]:
        """The functions of ``unseen``, as notes on the recording."""
        return [Reason("compiled_not_followed", {"name": name}) for name in self.unseen()]

    @abstractmethod
    def has_history(self, capture: Any) -> bool:
        """Was it computed from differentiated values, so that backward may still pass through it?"""

    def leads_on(self, captures: Sequence[Any]) -> bool:
        """May the program still run backward through these captures?

        This is so if it has kept a graph for another pass, or if one of them has a history that no pass has gone
        through.
        """
        return False

    @property
    @abstractmethod
    def progress(self) -> int:
        """A number that grows whenever more becomes known about gradients."""

    @abstractmethod
    def backward(self, captures: Sequence[Any]) -> Sequence[Backward]:
        """What backward has given these captures so far: one result, or one for each root from which it was told to
        run.
        """


class Blocks(Protocol):
    """The block form in a framework."""

    differentiates_at_end: bool = False
    """Does its tape run backward if the program has not? See ``AtEnd``."""

    takes_gradients: Collection[str] = frozenset()
    """If that is False: names whose mention shows that code takes gradients itself. A cell of such code is a block."""

    @property
    def captures(self) -> Captures | None:
        """The same of it."""
        return None

    @abstractmethod
    def tape(self, options: Options) -> BlockTape:
        """Raises Unsupported for options that this framework does not have."""

    @abstractmethod
    def refuse(self, target: Any, asked: str) -> None:
        """Raise Unsupported for a target for which a block around it would give wrong results."""

    @abstractmethod
    def observing(self, call: Any, observer: ModuleObserver) -> AbstractContextManager[object]:
        """Within this context a model reports to the observer when the program calls it, as in ``ModelCall.run``.

        ``call`` is a ``ModelCall`` of this framework; it provides the model, and what is known about its modules.
        """


class Backend(Protocol):
    """A framework's adapter."""

    name: str
    """The name of the framework's module; if that is imported, the backend is found."""

    title: str
    """The name of the framework in messages."""

    arrays: Arrays
    """Its tensors as data."""

    strategies: Sequence[str] = ("edges",)
    """How gradients can be collected."""

    partials: bool = False
    """Can its tape compute local partials?"""

    gone: Mapping[str, str] = MappingProxyType({})
    """Capabilities that are off in this release of the framework, each with the private name that is missing."""

    models: Models | None = None
    blocks: Blocks | None = None
    graphs: Callable[[Any, Any], GraphExecution | None] | None = None
    """(target, session) -> the execution of a target that already is a graph, None for any other; raises BadOption."""

    state: type[State] = State
    """What a program of this framework changes besides its results: see ``backprobe.backends.replay``."""

    guards: Guards | None = None
    function_watches: FunctionWatches | None = None

    variations: Callable[[], Variations] | None = None
    """Creates an object that varies the arguments of a program, to see the effect of rounding."""

    memory: Callable[[Any], MemoryHearing] | None = None
    """(model or None) -> an object that observes the memory that a block keeps."""

    vectorized: Vectorized | None = None
    """Runs a program on many samples at once, with a gradient for each."""

    bridged: Callable[[Any, Any], Any | None] | None = None
    """(value, source) -> the value with additional history: that of a tensor, or of the tensors in a container.

    Its numbers stay the same. None if it has no floating tensor that could get a history, as for a number or integers.
    """

    bridges: Callable[[], Bridges] | None = None
    """Creates an object that builds such bridges in a whole program, and tells which gradients arrive over them."""

    uncompiled: Callable[[], AbstractContextManager[object]] | None = None
    """Within this context, what the program compiles runs as plain Python, and can be observed."""

    traced_line: Callable[[BaseException], Source | None] | None = None
    """The program's line of an error that ``uncompiled`` hides; None for any other error."""

    recheck: Callable[[], Recheck] | None = None
    """Creates an object that observes the calls of a program, and repeats them."""

    hear_births: HearBirths | None = None
    """Reports each operation that makes NaN or Inf from better operands, in a run made for this purpose."""

    trials: Callable[[], Trials] | None = None
    """Creates an object that runs one program on many numbers."""

    errors: Callable[[BaseException, Any, Sequence[Any]], Failure | str | None] | None = None
    """(error, tape, captures) -> the cause of the error, as facts or as a sentence; None if not known."""

    useless: Callable[[], UselessGradients] | None = None
    """Creates an object that observes the iterations of a program for gradients that exist but are useless."""

    useless_in_call: Callable[[RepeatedCall], Sequence[Note]] | None = None
    """The same for one call of a function or model, which is made once or twice for this purpose.

    Raises whatever the program raises.
    """

    reduced: Callable[[Any], tuple[Any, ...] | None] | None = None
    """(object) -> how to pickle it, if its own way would fail in another process; None for any other object."""

    graph_facts: Callable[[Any, Any], GraphFacts] | None = None
    """(output, tensor) -> what the graph alone tells about them."""

    second_order: bool | None = None
    """Can the gradients of a recording be differentiated again? None if they cannot."""

    hessian: Callable[[GradientProgram], Product] | None = None
    """(program) -> a function that multiplies the Hessian of its output by vectors. Raises NoGradient.

    That function raises BadOption for a vector of another shape.
    """

    derivatives: Collection[str] = frozenset()
    """The functions of the framework that receive a function and differentiate it."""

    instead: Mapping[str, str] = MappingProxyType({})
    """What to write instead of a capability that is None, if this framework has its own way."""

    edits: Mapping[str, Sequence[str]] = MappingProxyType({})
    """What may replace something that cuts the graph, so that gradients pass: data for ``backprobe.remedies``.

    The key is a method or attribute by name (``.detach()``, ``.data``), a function by its path
    (``jax.lax.stop_gradient``; ``numpy.*`` is any function of that module), or, after ``with``, a context manager or
    decorator. The replacement is the owner (``{0}``), the first argument (``{1}``), the same call of another method
    (``{0}.rsample()``), the same call of another function or with one more keyword (``create_graph=True``), or another
    context manager. If there are several, each is tried, and the first that works is taken.
    """

    @property
    def watches(self) -> Watches | None:
        """A property, because what it needs may take long to import."""
        return None

    @property
    def captures(self) -> Captures | None:
        """The same for captures."""
        return None

    @abstractmethod
    def tape(self, options: Options) -> Tape:
        """A recording of one program."""

    def refuse(self, target: Any, asked: str) -> None:
        """Raise Unsupported for a function or model for which the function and model forms would give wrong results."""

    def refuse_argument(self, value: Any, asked: str) -> None:
        """Raise Unsupported for an argument, or a part of one, for which these forms would give wrong results."""
        self.refuse(value, asked)
