"""The optional part of a backend: each capability is an attribute that may be None, or a base class of a tape.

The main attributes of a ``Backend``; ``backprobe.backends.protocol`` has all of them:

- ``models``: it knows models, their modules and parameters (needed for the model form)
- ``blocks``: a program can be recorded although backprobe does not call it (blocks, cells, scripts)
- ``graphs``: a target can be a graph whose values already have names
- ``guards``: calls of a model are reported when they end, and can be repeated (``bp.guard``)
- ``watches``: a model can be watched while it trains (``bp.watch``)
- ``function_watches``: a loss function that receives its parameters can be watched, too
- ``recheck``: single calls can be repeated in double precision (``bp.check``)
- ``memory``: it measures the memory that is kept for backward (``bp.memory``)
- ``vectorized``: a program can be run on many samples at once (``bp.per_sample``)
- ``trials``: a program can be run on many inputs, each time from the same state (``bp.provoke``)
- ``bridged``: a value can get the history of another value (experiments of ``bp.explain``)
- ``bridges``: a value can get the history of another value in a program that computes its gradients itself
- ``errors``: it finds causes of the framework's errors that their messages do not mention
- ``useless``: it finds gradients that exist but are useless (``bp.explain`` of a script)
- ``graph_facts``: it can find from a tensor's graph what the tensor was computed from (``bp.explain`` of a tensor)
- ``second_order``: gradients of a recording can be differentiated again (``create_graph=True``)
- ``hessian``: Hessian-vector products with respect to values in a program (``bp.hvp``, ``bp.curvature``)

Attributes of a ``Tape``:

- ``tap``: each tensor that the program computes is replaced by another tensor, with which the program continues
- ``undifferentiated``: values that the program reads and that cannot be differentiated
- ``unfinished``, ``unnamed``: facts about captures before backward, and about tensors without a name

Base classes of a tape:

- ``Versions``: a tensor can be written in place
- ``Writes``: a write also changes other tensors that share the memory
- ``Late``: a captured tensor may begin to require a gradient later
- ``KeptGradients`` (only the tape of a block): tensors have an attribute such as ``.grad``, which may be None
- ``Recompute``: parts of the program run once more during backward, as in activation checkpointing
- ``Replaces``: values and gradients of the program can be replaced
- ``Staging``: the framework traces whole functions, and may discard a trace
- ``Differentiator`` (only the tape of a block): the tape runs backward when the block is over
- ``AtEnd`` (only the tape of a block): the tape can run backward if the program has not done so

A feature that needs a missing capability is left out, or refused with a message of ``backprobe.backends.refusals``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import CodeType, FrameType
from typing import Any, Protocol

from backprobe.backends.facts import Around, Effect, Ran, Root
from backprobe.record.reasons import Reason
from backprobe.record.source import Source

# Classes for writes in place, late histories, and recomputation.


class Versions(ABC):
    """Tensors that can be written in place: the contents change, and the object stays the same."""

    @abstractmethod
    def version(self, tensor: Any) -> int:
        """Return a number that changes when the tensor's memory is written."""

    @property
    def counter(self) -> Callable[[Any], int]:
        """A function that returns the same number as ``version``, and may be faster. It may raise RuntimeError for a
        tensor that does not count its writes.
        """
        return self.version

    def versions(self, tensors: Sequence[Any]) -> list[int]:
        """Return the versions of several tensors. It is called after each statement that may write."""
        return [self.version(tensor) for tensor in tensors]

    @abstractmethod
    def effect(self, function: Any, flagged: bool) -> Effect:
        """Return whether calling ``function`` may write. ``flagged`` says that the call has a keyword such as ``out``
        or ``inplace``.
        """

    def reports(self, owner: Any) -> None:
        """Announce that this module's forward is observed, so calling the module makes no unobserved write."""
        return


class Writes(ABC):
    """Writes that change several tensors, because the tensors share memory."""

    @abstractmethod
    def targets(self, function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Any]:
        """Return the tensors that this call may write to."""

    @abstractmethod
    def writing(self, tensor: Any) -> None:
        """Called before the program writes to this tensor. Saves the numbers that the write will overwrite."""

    @abstractmethod
    def written(self, tensor: Any) -> None:
        """Called after the program has written to this tensor."""

    @abstractmethod
    def expose(self, tensor: Any) -> None:
        """Called when the program takes a handle, such as a NumPy view, that allows unobserved writes to this
        tensor.
        """

    @abstractmethod
    def capture(
        self, tensor: Any, around: Callable[[], Around] | None, previous: Any | None = None, through: bool = False
    ) -> Any:
        """Capture a tensor as ``Tape.capture`` does, also if the tensor was written in place.

        If ``around`` is None, ``decide`` is called later with the captures from which the tensor was computed.
        ``previous`` is the earlier capture of the same object, if there is one. ``through`` says whether the write was
        made through this object.
        """

    def captures(self, tensors: Sequence[Any]) -> Sequence[Any]:
        """Capture several tensors that have no capture yet."""
        return [self.capture(tensor, None) for tensor in tensors]

    undecided: Collection[Any]
    """The captures without a history for which the reason is not known yet."""

    @abstractmethod
    def decide(self, capture: Any, around: Around) -> None:
        """Find out why one of the ``undecided`` captures has no history. ``around`` are the captures it was computed
        from.
        """

    has_found: bool = False
    """May ``overwritten`` or ``detached`` return a capture now?"""

    @abstractmethod
    def overwritten(self) -> Sequence[Any]:
        """Return the captures written since the last call in a way that the framework does not count."""

    @abstractmethod
    def detached(self) -> Sequence[Any]:
        """Return the captures that have lost their history, but not their contents, since the last call."""


class Late(ABC):
    """Captured tensors that may begin to require a gradient after they were captured."""

    waiting: Collection[Any]
    """The captures that have no history yet and may still get one."""

    before_late: Callable[[], object] = staticmethod(tuple)
    """Called before one of these captures gets a history. Values computed from the capture earlier have no history."""

    @abstractmethod
    def look_again(self, at: tuple[str, int] | None = None) -> None:
        """Called after the program has run a statement: find the captures that have got a history since. ``at`` is the
        statement's file and line, if known.
        """

    @abstractmethod
    def seen_again(self, capture: Any) -> None:
        """Called when a captured tensor is bound to another name: find out whether it has got a history since."""

    @abstractmethod
    def entering(self, frame: FrameType) -> None:
        """Called when the program enters a function. Captures that got a history before this moment got it in the
        calling line.
        """


class AtEnd(ABC):
    """The tape of a block in a framework whose programs may leave backward to the tape."""

    @abstractmethod
    def run_backward(self, root: Root, captures: Sequence[Any]) -> None:
        """Compute the gradients of an output after the program has ended. The graph is kept until then."""


class KeptGradients(ABC):
    """Gradients that are stored on tensors, such as in ``.grad``, where the program may read None."""

    count: int
    """The number of reads of stored gradients for which ``is_none`` was called."""

    @abstractmethod
    def is_none(self, tensor: Any, is_item: bool) -> bool:
        """Will the program find None when it reads the gradient of this tensor, or of an item of this tensor?

        An item of a tensor is a new tensor. Returns False if the check would disturb the program, for example by a
        warning.
        """

    @abstractmethod
    def none_read(self, tensor: Any, text: str, at: Source, is_item: bool) -> None:
        """Called when the program is about to read None at this line. ``text`` is the source text of the read."""

    @abstractmethod
    def assigned(self, tensor: Any, at: Source) -> None:
        """Called after the program has assigned a gradient, or None, to the attribute that stores it."""

    @abstractmethod
    def clears(self, owner: Any, at: Source) -> None:
        """Called when the program is about to clear all gradients of this object."""

    @abstractmethod
    def may_give_none(self, frame: FrameType) -> bool:
        """Does this frame belong to a function that returns gradients and may return None for some of them?"""

    @abstractmethod
    def gave(self, frame: FrameType, returned: Any, texts: Sequence[str], at: Source) -> None:
        """Called after a function for which ``may_give_none`` is true has returned ``returned``. ``texts`` are the
        source texts of its inputs, if known.
        """


class Recompute(ABC):
    """Parts of the program that are run once more during backward, as in activation checkpointing."""

    running_pass: Callable[[], int]
    """Return the number of the running backward pass; negative if none runs, so nothing is recomputed."""

    runs_once: Callable[[], bool]
    """Return whether ``to_be_repeated`` would certainly return None, so that it need not be called."""

    @abstractmethod
    def repeated(self) -> Hashable | None:
        """Return an identifier of the part that is being recomputed; None in the first run of the program."""

    @abstractmethod
    def to_be_repeated(self) -> Hashable | None:
        """Return an identifier of the running part if it will be recomputed with a history; otherwise None."""

    @abstractmethod
    def computed_again(self, capture: Any, again: Any) -> None:
        """Called when a capture of the first run was recomputed as ``again``, which has the history."""


# Classes for replacing values and gradients.


class Replaces(ABC):
    """A tape that can replace tensors and gradients, with which the program then continues."""

    compared: Sequence[str] = ("shape", "dtype", "device")
    """The properties in which a tensor and its replacement must be equal."""

    @abstractmethod
    def handed(self, tensor: Any) -> Any:
        """Return the tensor for a replacing function. Writing to it must not affect other tensors of the program."""

    @abstractmethod
    def as_tensor(self, new: Any, like: Any) -> Any:
        """Return a tensor with the numbers of ``new``; None if ``new`` is neither a tensor nor numbers."""

    @abstractmethod
    def instead(self, new: Any, original: Any, is_given: bool) -> Any:
        """Return the tensor with which the program continues. It has no name, and is differentiated if the original is.

        ``is_given`` says whether ``new`` was passed by the user. Otherwise a function has computed it from the
        original.
        """

    @abstractmethod
    def mixed(self, new: Any, original: Any, index: tuple[Any, ...]) -> Any:
        """Return a tensor that equals ``new`` at this index and ``original`` elsewhere."""

    @abstractmethod
    def like(self, array: Any, tensor: Any) -> Any:
        """Return a NumPy array as a tensor with the dtype of another tensor, and in PyTorch on its device."""

    @abstractmethod
    def with_numbers(self, new: Any, original: Any) -> Any:
        """Return a tensor without a name that has the numbers of ``new`` and the history of ``original``."""

    @abstractmethod
    def linked(self, value: Any, sources: Sequence[Any]) -> Any | None:
        """Return the value with the histories of all these sources added to its own, or None, as ``Backend.bridged``
        does.
        """

    @abstractmethod
    def original_value(self, tensor: Any) -> Callable[[], Any]:
        """Return a function that returns the tensor's present value, also after the program has ended."""

    @abstractmethod
    def with_gradient(self, tensor: Any, change: Callable[[Any], Any]) -> Any:
        """Return the tensor with which the program continues. Its gradient is passed through ``change``."""

    @abstractmethod
    def runs_again(self) -> bool:
        """Is the running code inside a checkpoint, so that Python runs it again in backward?"""

    def is_tracing(self) -> bool:
        """Is the running code being traced, so that it may run again in another trace?"""
        return False


# Classes for staging, and for models.


class Staging(ABC):
    """A framework that traces whole functions before it runs them."""

    @abstractmethod
    def staged(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Call a function, and also record the values inside its loops."""

    @abstractmethod
    def outside(self, capture: Any) -> Any:
        """Return a captured value in a form that the program can use after the run; None if there is no such form."""

    @abstractmethod
    def is_discarded(self, capture: Any) -> bool:
        """Was this value captured in a trace that the framework has discarded in order to trace again?"""


class Models(Protocol):
    """Gives access to the models of a framework."""

    replaces_parameters: bool = False
    """Does the program continue with the object that ``ModuleObserver.parameter`` returns, instead of its parameter?"""

    libraries: Collection[str] = ()
    """The packages whose modules belong to the framework. Locals of their forwards are not recorded."""

    parameters: Callable[[Any], Mapping[str, Any]] | None = None
    """Return the objects that are the parameters of a model, by path."""

    buffers: Callable[[Any], Mapping[str, Any]] | None = None
    """Return the state of a model that gets no entry, by path, such as the running statistics of a normalisation."""

    @abstractmethod
    def is_model(self, value: Any) -> bool: ...

    def in_place(self, model: Any) -> Collection[str]:
        """Return the paths of the modules that are configured to write in place."""
        return ()

    @abstractmethod
    def call(self, model: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> ModelCall:
        """Return the ``ModelCall`` for a call of a model that is about to be made."""


class ModelCall(Protocol):
    """One call of a model, before and while it runs."""

    @property
    def inputs(self) -> Mapping[str, Any]:
        """The parts of the model and its arguments that ``Tape.run`` makes differentiable, if any."""
        return {}

    @property
    @abstractmethod
    def forward(self) -> Any:
        """The function of the model that this call runs."""

    @abstractmethod
    def module_paths(self) -> Iterable[str]:
        """Return the paths of all modules that may run. The path of the model itself is ""."""

    def forwards(self) -> Mapping[str, Any]:
        """Return the function that each module runs, by the module's first path, as far as it is known."""
        return {"": self.forward}

    @abstractmethod
    def parameter_paths(self) -> Iterable[str]: ...

    def other_paths(self) -> Mapping[str, str]:
        """Return each further path of a module or parameter that has several, with the path that is printed."""
        return {}

    def kinds(self) -> Mapping[str, str]:
        """Return the class names of the modules, by path."""
        return {}

    @property
    def is_known(self) -> bool:
        """Is ``module_paths`` complete? It is not if the model creates modules when it first runs."""
        return True

    def hidden_paths(self) -> Mapping[str, Reason]:
        """Return the paths of the modules that run unobserved, and the reason for each."""
        return {}

    @abstractmethod
    def run(self, inputs: Mapping[str, Any], observer: ModuleObserver) -> Any:
        """Call the model. Meanwhile its parameters and modules report to the observer."""

    def finish(self, returned: Any, later: list[Callable[[], None]]) -> Any:
        """Finish the call, and return the model's result, computed from the return value of ``run``.

        Steps that must run after the program has been differentiated are added to ``later``.
        """
        return returned


@dataclass(frozen=True)
class ModuleObserver:
    """The callbacks of the model form. They supply forwards that report their values, and receive the results of
    modules.
    """

    parameter: Callable[[str, Any], Any]  # (path, parameter) -> the object that replaces it, or the parameter itself
    # (paths, parameters) -> for each of several parameters, the object that replaces it, or the parameter itself
    parameters: Callable[[Sequence[str], Sequence[Any]], Sequence[Any]]
    wants_output: Callable[[str], bool]
    wants_locals: Callable[[str], bool]
    rewritten: Callable[[str, Any], Any]  # (path, forward) -> a forward that reports its values, or None
    returned: Callable[[str, Any], Any]  # (path, result of the module) -> the object that replaces the result
    writing: Callable[[Any], None]  # (inputs of a module that writes in place and is about to run)
    written: Callable[[Any], None]  # (inputs of a module that has run and written in place)
    wants_parameter: Callable[[str], bool] = lambda path: True  # if False, the parameter need not be reported
    given: Callable[[Any], None] = lambda inputs: None  # (inputs of the model itself, which is about to run)
    executed: set[str] = field(default_factory=set)  # paths of modules that have returned, at least of selected ones
    called: list[Any] | None = None  # flat, in threes: a module's path, and the code and instruction that called it
    kinds: dict[str, type] = field(default_factory=dict)  # by path: the class of a module with parameters
    hooks: dict[str, list[CodeType]] = field(default_factory=dict)  # by path: the code of the hooks of its forward
    # a cache of objects that the backend computed from these callbacks, and reuses in the next block
    known: dict[Any, Any] = field(default_factory=dict)


# Classes for blocks.


class Differentiator(ABC):
    """A tape of a block that runs backward when the block ends, also from outputs that the program has differentiated
    itself.
    """

    @abstractmethod
    def follow(self, tensors: Sequence[Any]) -> None:
        """Differentiate these tensors from now on. The program is about to read them, and did not compute them."""

    @abstractmethod
    def made(self, tensor: Any) -> int:
        """Return a number that grows in the order in which the block computes tensors with a history. It is 0 for other
        tensors, and for gradients that the program computed itself.
        """

    counts = False
    """True for a script: further tensors may then be fetched in the session runs of the program itself."""

    heard: Callable[[Sequence[Any], Any], None] | None = None
    """(targets, gradients): called when the program has computed gradients itself and no recording observes it."""

    gives = "gradient()"
    """The name of the call by which programs differentiate. Messages use it for a target that no variable holds."""

    def is_variable(self, capture: Any) -> bool:
        """Is the captured object one that the framework's tapes watch by themselves?"""
        return False

    def targets(self) -> Sequence[Any]:
        """Return the values that the program differentiated, except those of which only the gradient was used."""
        return ()

    def targets_of(self, values: Sequence[Any]) -> Sequence[Any]:
        """Return the targets that the program differentiated, if some of them are among these values, given in order of
        computation.

        Returns an empty sequence if the last value combines gradients with other values. An example is a loss with a
        gradient penalty, which the program itself does not differentiate.
        """
        return ()

    def own_roots(self) -> Sequence[Root]:
        """Return the roots of the backward passes that the program itself ran, one for each output, in order."""
        return ()

    @abstractmethod
    def differentiate(self, ran: Ran) -> None:
        """Run backward once from each root, after the program has ended."""

    @abstractmethod
    def give_up(self, why: Reason) -> None:
        """End the recording without gradients, for this reason, after the program has ended."""
