"""The optional part of a backend: each capability is an attribute that may be None, or a class that a tape may be.

Of a ``Backend``:

- ``models``: it knows models, their modules and parameters (the model form)
- ``blocks``: a program can be recorded while it runs by itself (the block form, cells, scripts)
- ``graphs``: a target can be a graph whose values have names already
- ``guards``: calls of a model are heard as they end, and can be made again (``bp.guard``)
- ``watches``: a model can be watched while it trains (``bp.watch``)
- ``function_watches``: so can a loss function, which is given its parameters
- ``recheck``: single calls can be repeated in double precision (``bp.check``)
- ``memory``: it tells what it keeps for backward (``bp.memory``)
- ``vectorized``: a program can be run on many samples at once (``bp.per_sample``)
- ``trials``: a program can be run on many numbers, each time as if for the first time (``bp.provoke``)
- ``bridged``: a value can get the history of another one (experiments of ``bp.explain``), and ``bridges``: so it can
  in a program that takes gradients by itself
- ``errors``: it knows more about the framework's errors than they say
- ``useless``: it knows facts about gradients that are there, and useless (``bp.explain`` of a script)
- ``graph_facts``: a tensor knows what it was computed from (``bp.explain`` of a tensor)
- ``second_order``: gradients of a recording can be differentiated again (``create_graph=True``)
- ``hessian``: so can those of a program, by values in it (``bp.hvp``, ``bp.curvature``)

Of a ``Tape``:

- ``tap``: the program goes on with another tensor in the place of each that it makes
- ``undifferentiated``: what the program reads that no tape follows
- ``unfinished``, ``unnamed``: what is known of captures before backward, and of tensors without a name

And a tape may be one or several of these classes:

- ``Versions``: a tensor can get other contents and stay the same object
- ``Writes``: a write also reaches other names, through shared memory
- ``Late``: a captured tensor may begin to require a gradient later
- ``KeptGradients``, which a block's tape may have: what tensors keep, the program may read, and find None
- ``Recompute``: parts of the program run once more in the course of backward, as checkpoints do
- ``Replaces``: the program can go on with another tensor, or another gradient
- ``Staging``: the framework traces whole functions, and may throw a trace away
- ``Differentiator``, of a block: backward runs when the block is over

Where one is missing, what needs it is refused in the words of ``backprobe.backends.refusals``, or does not happen.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from types import CodeType, FrameType
from typing import Any, Protocol

from backprobe.backends.facts import Around, Backward, Effect, GraphNode, Options, Ran, Root
from backprobe.backends.tensors import Tensors
from backprobe.record.reasons import Note, Reason
from backprobe.record.source import Source

# writes, late histories, recomputation


class Versions(ABC):
    """Tensors that can get other contents and stay the same object."""

    @abstractmethod
    def version(self, tensor: Any) -> int:
        """A number that changes when the tensor's memory is written."""

    @property
    def counter(self) -> Callable[[Any], int]:
        """The same, and faster where it can be; it may raise RuntimeError for what counts no writes."""
        return self.version

    def versions(self, tensors: Sequence[Any]) -> list[int]:
        """The same of many: it is asked after each statement that may have written, of all that has a live name."""
        return [self.version(tensor) for tensor in tensors]

    @abstractmethod
    def effect(self, function: Any, flagged: bool) -> Effect:
        """What calling ``function`` may do; ``flagged`` if the call has a keyword such as ``out`` or ``inplace``."""

    def reports(self, owner: Any) -> None:
        """This module's forward reports all that it does: calling the module writes to nothing out of sight."""
        return


class Writes(ABC):
    """Writes that reach other names, through shared memory."""

    @abstractmethod
    def targets(self, function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Any]:
        """The tensors that this call may write to."""

    @abstractmethod
    def writing(self, tensor: Any) -> None:
        """The program is about to write to this tensor: save what the write overwrites."""

    @abstractmethod
    def written(self, tensor: Any) -> None:
        """The program has written to it."""

    @abstractmethod
    def expose(self, tensor: Any) -> None:
        """The program takes a handle through which it may write unseen."""

    @abstractmethod
    def capture(
        self, tensor: Any, around: Callable[[], Around] | None, previous: Any | None = None, through: bool = False
    ) -> Any:
        """``Tape.capture``, also of a tensor that was written.

        ``around`` is None: what it was computed from is known later, see ``decide``. ``previous`` is the capture of
        the same object before, if it had one, and ``through`` says whether that write went through this object.
        """

    def captures(self, tensors: Sequence[Any]) -> Sequence[Any]:
        """The same of several tensors that have no capture yet."""
        return [self.capture(tensor, None) for tensor in tensors]

    undecided: Collection[Any]
    """The captures without history of which it is not known why."""

    @abstractmethod
    def decide(self, capture: Any, around: Around) -> None:
        """Find out why one of these has no history; ``around`` is what it was computed from."""

    has_found: bool = False
    """Is there something that ``overwritten`` or ``detached`` will tell?"""

    @abstractmethod
    def overwritten(self) -> Sequence[Any]:
        """The captures written where the framework does not look, since this was asked last."""

    @abstractmethod
    def detached(self) -> Sequence[Any]:
        """The captures whose tensors gave up their history and kept their contents, since this was asked last."""


class Late(ABC):
    """Histories that come late: a captured tensor may begin to require a gradient."""

    waiting: Collection[Any]
    """The captures that have no history so far, and may get one."""

    before_late: Callable[[], object] = staticmethod(tuple)
    """Called before a capture gets its history late: what was computed from it so far was computed without one."""

    @abstractmethod
    def look_again(self, at: tuple[str, int] | None = None) -> None:
        """The program has run on. ``at`` is the file and line of the statement that ran, where that is known."""

    @abstractmethod
    def seen_again(self, capture: Any) -> None:
        """The same for one capture, whose tensor has got another name."""

    @abstractmethod
    def entering(self, frame: FrameType) -> None:
        """A function of the program is entered: what ran until now, the calling line did."""


class AtEnd(ABC):
    """The tape of a block whose program may run backward itself: it can, where the program has not."""

    @abstractmethod
    def run_backward(self, root: Root, captures: Sequence[Any]) -> None:
        """Take the gradients of an output, now that the program is over; the graph is kept for it."""


class KeptGradients(ABC):
    """Tensors that keep their gradients where the program reads them, and hold None where they have none."""

    count: int
    """How many of them the program has read, to use them."""

    @abstractmethod
    def is_none(self, tensor: Any, is_item: bool) -> bool:
        """Will the program find None when it reads the gradient that this keeps, or an item of it, which is another
        tensor? False where that cannot be known without a sign to the program, as a warning.
        """

    @abstractmethod
    def none_read(self, tensor: Any, text: str, at: Source, is_item: bool) -> None:
        """The program, in whose text the read is spelled so, is about to find None at this line."""

    @abstractmethod
    def assigned(self, tensor: Any, at: Source) -> None:
        """The program has put a gradient, or None, where a tensor keeps its own."""

    @abstractmethod
    def clears(self, owner: Any, at: Source) -> None:
        """The program is about to take away all gradients of what this object has."""

    @abstractmethod
    def may_give_none(self, frame: FrameType) -> bool:
        """Is this that of a function which was asked for gradients, and may return None in the place of some?"""

    @abstractmethod
    def gave(self, frame: FrameType, returned: Any, texts: Sequence[str], at: Source) -> None:
        """It has returned this; ``texts`` are what its inputs are in the program's text, as far as that shows them."""


class Recompute(ABC):
    """Parts of the program that run once more in the course of backward."""

    running_pass: Callable[[], int]
    """Negative where no backward pass is running: then nothing is computed again."""

    runs_once: Callable[[], bool]
    """Is what runs now certainly in no part that will be computed again? Then ``to_be_repeated`` is not asked."""

    @abstractmethod
    def repeated(self) -> Hashable | None:
        """The part that is being computed again; None in the first run of the program."""

    @abstractmethod
    def to_be_repeated(self) -> Hashable | None:
        """The part that runs now without a history, and will be computed again with one."""

    @abstractmethod
    def computed_again(self, capture: Any, again: Any) -> None:
        """A capture of the first run, and the one that has its history."""


# journals


class Journals(ABC):
    """Values may be captured some time after they were bound, as long as nothing was written since."""

    @abstractmethod
    def gives_history(self, before: bool = True) -> bool | None:
        """Does what is computed now get a history? None in a transform, a mode, a checkpoint or a backward pass.

        ``before`` says whether it did when this was asked last.
        """

    @abstractmethod
    def giving_history(self, on: bool) -> AbstractContextManager[object]:
        """Within this context that is so, or not so, whatever the program does."""

    @abstractmethod
    def hide(self, captures: Sequence[Any]) -> None:
        """Something has written to these before they were captured: their gradients are not known."""

    @abstractmethod
    def natures(self, tensors: Sequence[Any]) -> Sequence[Any]:
        """What of each tells whether and how it will be captured: equal for two that are captured alike."""


# replacing


class Replaces(ABC):
    """The program can go on with another tensor in the place of one, or with another gradient."""

    compared: Sequence[str] = ("shape", "dtype", "device")
    """What both have in common."""

    @abstractmethod
    def handed(self, tensor: Any) -> Any:
        """What a function is given that replaces this: what it writes to that reaches no other name."""

    @abstractmethod
    def as_tensor(self, new: Any, like: Any) -> Any:
        """A tensor of this framework that has these numbers; None for what is neither a tensor nor numbers."""

    @abstractmethod
    def instead(self, new: Any, original: Any, is_given: bool) -> Any:
        """What the program goes on with: a tensor that has no name, differentiated where the original is.

        ``is_given`` says whether it belongs to the user, and was not made of the original by a function.
        """

    @abstractmethod
    def mixed(self, new: Any, original: Any, index: tuple[Any, ...]) -> Any:
        """A tensor that is ``new`` at this index and ``original`` elsewhere."""

    @abstractmethod
    def like(self, array: Any, tensor: Any) -> Any:
        """An array of NumPy as a tensor of the dtype and on the device of another one."""

    @abstractmethod
    def with_numbers(self, new: Any, original: Any) -> Any:
        """A tensor that has no name, with these numbers and the history of the original: gradients flow on to that."""

    @abstractmethod
    def linked(self, value: Any, sources: Sequence[Any]) -> Any | None:
        """What ``Backend.bridged`` makes of a value, with the history of all these sources as well."""

    @abstractmethod
    def original_value(self, tensor: Any) -> Callable[[], Any]:
        """What returns the value that a tensor has now, when the program is over."""

    @abstractmethod
    def with_gradient(self, tensor: Any, change: Callable[[Any], Any]) -> Any:
        """What the program goes on with, so that the gradient of this tensor is what ``change`` returns."""

    @abstractmethod
    def runs_again(self) -> bool:
        """Is what runs now computed once more in the course of backward?"""

    def is_tracing(self) -> bool:
        """Is what runs now traced, and may it be traced again?"""
        return False


# staging, models


class Staging(ABC):
    """A framework that traces functions as a whole."""

    @abstractmethod
    def staged(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Call a function so that what is inside its loops is recorded too."""

    @abstractmethod
    def outside(self, capture: Any) -> Any:
        """What the program has of a captured value when it is over; None for what it cannot get hold of."""

    @abstractmethod
    def is_discarded(self, capture: Any) -> bool:
        """Was this captured in a trace that the framework has thrown away, to trace again?"""


class Models(Protocol):
    """The models of a framework."""

    replaces_parameters: bool = False
    """Does the program go on with what ``ModuleObserver.parameter`` returns?"""

    libraries: Collection[str] = ()
    """The packages whose modules are the framework's own: the locals of their forwards are no part of a program."""

    parameters: Callable[[Any], Mapping[str, Any]] | None = None
    """The objects that are the parameters of a model, by path."""

    buffers: Callable[[Any], Mapping[str, Any]] | None = None
    """What a model computes with and has no entry, by path, such as the running statistics of a normalisation."""

    @abstractmethod
    def is_model(self, value: Any) -> bool: ...

    def in_place(self, model: Any) -> Collection[str]:
        """The paths of the modules that are set to write in place."""
        return ()

    @abstractmethod
    def call(self, model: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> ModelCall:
        """A call of a model that is about to be made."""


class ModelCall(Protocol):
    """One call of a model."""

    @property
    def inputs(self) -> Mapping[str, Any]:
        """What of the model and its arguments ``Tape.run`` makes differentiable; empty where their flags stand."""
        return {}

    @property
    @abstractmethod
    def forward(self) -> Any:
        """The model's own function that this call runs."""

    @abstractmethod
    def module_paths(self) -> Iterable[str]:
        """The paths of the modules that can run, the model itself being ""."""

    def forwards(self) -> Mapping[str, Any]:
        """The function that each module runs, by the first path of the module, as far as that is known beforehand."""
        return {"": self.forward}

    @abstractmethod
    def parameter_paths(self) -> Iterable[str]: ...

    def kinds(self) -> Mapping[str, str]:
        """The class names of modules, by path."""
        return {}

    @property
    def is_known(self) -> bool:
        """Are these all paths? Some modules are made when the model first runs."""
        return True

    def hidden_paths(self) -> Mapping[str, Reason]:
        """The modules that run where they cannot be observed, and why."""
        return {}

    @abstractmethod
    def run(self, inputs: Mapping[str, Any], observer: ModuleObserver) -> Any:
        """Call the model; in the course of it its parameters and modules report to the observer."""

    def finish(self, returned: Any, later: list[Callable[[], None]]) -> Any:
        """The call is over: the model's result, of what ``run`` returned.

        What can be done only when the program has been differentiated is added to ``later``.
        """
        return returned


@dataclass(frozen=True)
class ModuleObserver:
    """What the model form is told: which forwards to replace by reporting ones, and what modules return."""

    parameter: Callable[[str, Any], Any]  # (path, parameter) -> what takes its place, the same where nothing does
    parameters: Callable[[Sequence[tuple[str, Any]]], Sequence[Any]]  # the same of several
    wants_output: Callable[[str], bool]
    wants_locals: Callable[[str], bool]
    rewritten: Callable[[str, Any], Any]  # (path, forward) -> reporting forward, or None
    returned: Callable[[str, Any], Any]  # (path, what the module returned) -> what takes its place
    writing: Callable[[Any], None]  # (inputs of a module that works in place and is about to run)
    written: Callable[[Any], None]  # (inputs of a module that has worked in place)
    wants_parameter: Callable[[str], bool] = lambda path: True  # else nothing need be said of it
    given: Callable[[Any], None] = lambda inputs: None  # (inputs of the model itself, which is about to run)
    executed: set[str] = field(default_factory=set)  # the paths of the modules that have returned
    called: list[Any] | None = None  # in turns the path of a module, and the code and place of what called it
    kinds: dict[str, type] = field(default_factory=dict)  # by path: the class of a module that has parameters itself
    hooks: dict[str, list[CodeType]] = field(default_factory=dict)  # by path: what runs before or after its forward
    known: dict[Any, Any] = field(default_factory=dict)  # what a backend has made of these wishes, for the next block
    journal: Callable[[Any], Any] | None = None  # (what tells the model from others) -> a journal of its first call


# blocks


class Differentiator(ABC):
    """What differentiates a block when it is over, where the program does not do so itself."""

    @abstractmethod
    def follow(self, tensors: Sequence[Any]) -> None:
        """The program is about to read these, which it did not compute: they are differentiated from here on."""

    @abstractmethod
    def made(self, tensor: Any) -> int:
        """When the block computed this, as a number that grows; 0 for what it did not compute."""

    counts = False
    """Should it say what became of the parameters that the program itself takes gradients of?"""

    heard: Callable[[Sequence[Any], Any], None] | None = None
    """(targets, gradients): called as the program has differentiated by itself, if nothing records that."""

    gives = "gradient()"
    """What the program calls to differentiate: the name of a target that no variable holds."""

    def targets(self) -> Sequence[Any]:
        """What the program itself asked gradients of, but for that of which only the gradient was used further."""
        return ()

    def targets_of(self, values: Sequence[Any]) -> Sequence[Any]:
        """What the program asked gradients of, if some of that is among these values; they are in the order in which
        they were computed. Nothing where the last was computed from more than such gradients, as a loss with a penalty
        is that the program leaves to be differentiated.
        """
        return ()

    def own_roots(self) -> Sequence[Root]:
        """Where the passes begin that the program has run itself, one of each output, in their order."""
        return ()

    @abstractmethod
    def differentiate(self, ran: Ran) -> None:
        """The program is over: run backward, once from each root."""

    @abstractmethod
    def give_up(self, why: Reason) -> None:
        """The program is over, and cannot be differentiated for this reason."""


# graphs


class GraphExecution(Tensors, Protocol):
    """One run of a target that is a graph already. Its methods are called in this order."""

    name: str
    """What the target is called in messages."""

    arrays: str
    """The name of the ``Arrays`` that it returns."""

    framework: str
    """The framework whose graph it is."""

    @abstractmethod
    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Take the arguments of the run. Raises BadOption."""

    @abstractmethod
    def target(self, of: Any) -> tuple[Any, Any]:
        """What the run returns, symbolically, and ``of`` as it applies to that."""

    @abstractmethod
    def nodes(self, output: Any) -> Sequence[GraphNode]:
        """Every value that the graph has a name for, in the order of execution."""

    @abstractmethod
    def run(self, cotangent: Any, wanted: Sequence[int], options: Options) -> tuple[Any, Any, Backward]:
        """Run once, forward and backward: the result, what was differentiated, and the outcomes of the wanted nodes."""

    @abstractmethod
    def source(self, node: int) -> Source | None:
        """The user's line that made a node."""

    @abstractmethod
    def notes(self) -> Sequence[Note]:
        """What could not be observed."""
