"""The required part of a backend: a tape for functions, and its tensors as data.

To add a backend that can do the function form, implement these, and list it in ``backprobe.backends.discover``:

- ``Backend``: ``name``, ``title``, ``arrays`` and ``tape(options)``
- ``Arrays``: of ``backprobe.backends.numpy.HostArrays`` ``is_tensor``, ``describe``, ``to_host`` and ``from_host``
- ``Tape``: ``is_tensor``, ``is_floating``, ``is_differentiated``, ``describe`` and ``cotangent`` of its tensors;
  ``capture`` as a value gets its name, ``run`` for forward and backward, ``release``

Whatever else a framework can do is a capability (``backprobe.backends.capabilities``), None where it cannot.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from types import CodeType, FrameType, MappingProxyType
from typing import Any, Protocol

from backprobe.backends.bridging import Bridges
from backprobe.backends.capabilities import GraphExecution, KeptGradients, Models, ModuleObserver
from backprobe.backends.captures import Captures
from backprobe.backends.facts import Around, Backward, Failure, GraphFacts, Options, Ran
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
        """Take hold of a tensor as it gets its name: what can be known only now, about its value and gradient.

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
        """Run a program forward, and backward from each of its roots: its result, and what each pass gave.

        ``inputs`` are what is differentiated, by name: those of a function, or none where the flags of the framework's
        own tensors stand. ``wrt`` names some of them. The program is given them made differentiable; what puts back the
        old leaves of the caller's own containers is added to ``undo``. Backward runs once from each root, and once more
        from each capture to its inputs alone where partials are asked for.
        """

    @abstractmethod
    def release(self) -> None:
        """Keep nothing any longer."""

    ordinary: frozenset[type] = frozenset()
    """Types of tensors that are themselves and nothing else: identified by ``id``, and read without side effects."""

    disturbed: Callable[[], int] = int
    """Is something installed that sees what is read of tensors, ordinary ones too?"""

    @property
    def partly_tensors(self) -> tuple[type, ...]:
        """Types of which some values are tensors and others are not, as arrays of random keys; subclasses too."""
        return ()

    opened: Callable[[Any], Any] | None = None
    """(value) -> a container of what a model of the framework's libraries holds; any other value as it is."""

    def identity(self, tensor: Any, /) -> int:
        """The same number for what is the same tensor."""
        return id(tensor)

    def quiet(self) -> AbstractContextManager[Any]:
        """Within this context, the user's modes and tensor subclasses do not see what the tape does."""
        return nullcontext()

    # capabilities

    @property
    def tap(self) -> Callable[[Any], Any] | None:
        """(value) -> what the program goes on with in its place: the same for the same tensor."""
        return None

    unfinished: Callable[[Sequence[Any]], Backward] | None = None
    """(captures) -> what is known of them before backward has run."""

    undifferentiated: Callable[[], Sequence[tuple[Reason, Source]]] | None = None
    """What the program has read and is not differentiated by its nature, as an integer Variable: why, and where."""

    unnamed: Callable[[Sequence[Any]], Sequence[tuple[str, Any, int]]] | None = None
    """(captures) -> what the program has read and is differentiated, of which none of these captures is.

    Each with what the framework calls it, and how many of the captures were made before it was read.
    """


class BlockTape(Tape, Protocol):
    """A recording of a block of the program, which differentiates by itself as it runs or leaves that to the tape."""

    @abstractmethod
    def listen(self, began: Callable[[Sequence[Any], bool], Sequence[Any]]) -> None:
        """The block begins. ``began`` is given the tensors that the program runs backward from, and captures them.

        With them comes whether what that brings does not add up in the leaves: see ``OwnPass``.
        """

    @abstractmethod
    def hides(self, code: CodeType) -> bool:
        """Should what this code calls stay unobserved: traced or compiled by the framework, or a part of backward?"""

    def differentiates(self, code: CodeType) -> bool:
        """Is it that of a function in which backward runs?"""
        return False

    def cut_short(self) -> Sequence[Source | None]:
        """The lines of those calls of backward that have begun, and did not come to their end."""
        return ()

    kept_gradients: KeptGradients | None = None
    """The gradients that tensors of the program keep, which it may read."""

    useless: Any = None
    """The ``UselessGradients`` that observes what runs, if it is asked for."""

    hears: Collection[str] = frozenset()
    """The names of functions of any kind that ``entered`` is to hear of."""

    def entered(self, frame: FrameType) -> None:
        """A function of one of these names is entered in the probing thread."""

    def unseen(self) -> Sequence[str]:
        """The compiled functions that have run, in which nothing can be observed."""
        return ()

    def not_followed(self) -> Sequence[Reason]:
        """What ``unseen`` returns, as notes on the recording."""
        return [Reason("compiled_not_followed", {"name": name}) for name in self.unseen()]

    @abstractmethod
    def has_history(self, capture: Any) -> bool:
        """Was it computed from what is differentiated, so that backward may yet come through it?"""

    def leads_on(self, captures: Sequence[Any]) -> bool:
        """May the program still run backward through these captures?

        That is so if it has kept a graph for another pass, or if one of them has a history that no pass went through.
        """
        return False

    @property
    @abstractmethod
    def progress(self) -> int:
        """A number that grows when more is known about gradients."""

    @abstractmethod
    def backward(self, captures: Sequence[Any]) -> Sequence[Backward]:
        """What backward has given these captures so far: once, or once from each root that it was told to run from."""


class Blocks(Protocol):
    """The block form in a framework."""

    differentiates_at_end: bool = False
    """Does its tape run backward where the program has not? See ``AtEnd``."""

    takes_gradients: Collection[str] = frozenset()
    """Names that code mentions which takes gradients itself, where that is false: a cell of such code is a block."""

    @property
    def captures(self) -> Captures | None:
        """The same of it."""
        return None

    @abstractmethod
    def tape(self, options: Options) -> BlockTape:
        """Raises Unsupported for options that this framework does not have."""

    @abstractmethod
    def refuse(self, target: Any, asked: str) -> None:
        """Raise Unsupported for a target that a block around it would get wrong."""

    @abstractmethod
    def observing(self, call: Any, observer: ModuleObserver) -> AbstractContextManager[object]:
        """Within this context a model reports to the observer whenever the program calls it, as in ``ModelCall.run``.

        ``call`` is a ``ModelCall`` of this framework: of it the model is taken, and what is known of its modules.
        """


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

    partials: bool = False
    """Can its tape take local partials?"""

    gone: Mapping[str, str] = MappingProxyType({})
    """Capabilities that this release of the framework switches off, each with the private name that it lacks."""

    models: Models | None = None
    blocks: Blocks | None = None
    graphs: Callable[[Any, Any], GraphExecution | None] | None = None
    """(target, session) -> what runs a target that is a graph already, None for any other; raises BadOption."""

    state: type[State] = State
    """What a program of this framework changes beside its results: see ``backprobe.backends.replay``."""

    guards: Guards | None = None
    function_watches: FunctionWatches | None = None

    variations: Callable[[], Variations] | None = None
    """Makes what varies the arguments of a program, to see what rounding does to it."""

    memory: Callable[[Any], MemoryHearing] | None = None
    """(model or None) -> what hears which memory a block keeps."""

    vectorized: Vectorized | None = None
    """Runs a program on many samples at once, and has a gradient for each."""

    bridged: Callable[[Any, Any], Any | None] | None = None
    """(value, source) -> the value with the history of others as well: of a tensor, or of those in a container.

    Its numbers stay. None where it has no floating tensor that could get a history, as for a number or integers.
    """

    bridges: Callable[[], Bridges] | None = None
    """Makes what builds such bridges in a whole program, and says which gradients arrive by them."""

    uncompiled: Callable[[], AbstractContextManager[object]] | None = None
    """Within its context what the program compiles runs as Python runs it, and can be observed."""

    traced_line: Callable[[BaseException], Source | None] | None = None
    """The program's line whose error ``uncompiled`` hides; None for any other error."""

    recheck: Callable[[], Recheck] | None = None
    """Makes what observes the calls of a program, and repeats them."""

    hear_births: HearBirths | None = None
    """Tells of each operation that makes NaN or Inf of less, in a run that is made for that."""

    trials: Callable[[], Trials] | None = None
    """Makes what runs one program on many numbers."""

    errors: Callable[[BaseException, Any, Sequence[Any]], Failure | str | None] | None = None
    """(error, tape, captures) -> what the error is about, in facts or in a sentence; None where nothing is known."""

    useless: Callable[[], UselessGradients] | None = None
    """Makes what observes the iterations of a program for gradients that are there, and useless."""

    useless_in_call: Callable[[RepeatedCall], Sequence[Note]] | None = None
    """What of this is found in one call of a function or model, which is made once or twice for that.

    Raises what the program raises.
    """

    reduced: Callable[[Any], tuple[Any, ...] | None] | None = None
    """(object) -> how it is pickled, where its own way would miss something in another process; None for any other."""

    graph_facts: Callable[[Any, Any], GraphFacts] | None = None
    """(output, tensor) -> what the graph alone says of them."""

    second_order: bool | None = None
    """Can the gradients of a recording be differentiated again? None where they cannot."""

    hessian: Callable[[GradientProgram], Product] | None = None
    """(program) -> what multiplies the Hessian of its output by vectors. Raises NoGradient.

    What multiplies raises BadOption for a vector of another shape.
    """

    derivatives: Collection[str] = frozenset()
    """The functions of the framework that are given a function, and differentiate it."""

    instead: Mapping[str, str] = MappingProxyType({})
    """What to write instead of a capability that is None, where this framework has a way of its own."""

    edits: Mapping[str, Sequence[str]] = MappingProxyType({})
    """What may stand in the place of what cuts, so that gradients come through: data for ``backprobe.remedies``.

    What is replaced is a method or attribute by its name (``.detach()``, ``.data``), a function by where it is found
    (``jax.lax.stop_gradient``; ``numpy.*`` is any of that module), or with ``with`` before it a context manager or
    decorator. In its place comes the owner (``{0}``), the first argument (``{1}``), the same call of another method
    (``{0}.rsample()``), the same call of another function or with
    one more keyword (``create_graph=True``), or for a context manager another one. Of several the first
    that works is taken: each is tried.
    """

    @property
    def watches(self) -> Watches | None:
        """A property, since what it needs may take long to import."""
        return None

    @property
    def captures(self) -> Captures | None:
        """The same of it."""
        return None

    @abstractmethod
    def tape(self, options: Options) -> Tape:
        """A recording of one program."""

    def refuse(self, target: Any, asked: str) -> None:
        """Raise Unsupported for a function or model that the function and model forms would get wrong."""

    def refuse_argument(self, value: Any, asked: str) -> None:
        """Raise Unsupported for an argument, or a part of one, that these forms would get wrong."""
        self.refuse(value, asked)
