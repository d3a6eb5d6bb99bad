"""The optional part of a backend: each capability is an attribute that may be None, or a base class of a tape.

Attributes of a ``Backend``:

- ``models``: it knows models, their modules and parameters (the model form)
- ``blocks``: a program can be recorded while it runs by itself (the block form, cells, scripts)
- ``graphs``: a target can be a graph whose values already have names
- ``guards``: calls of a model are reported when they end, and can be repeated (``bp.guard``)
- ``watches``: a model can be watched while it trains (``bp.watch``)
- ``function_watches``: a loss function that receives its parameters can be watched, too
- ``recheck``: single calls can be repeated in double precision (``bp.check``)
- ``memory``: it measures what is kept for backward (``bp.memory``)
- ``vectorized``: a program can be run on many samples at once (``bp.per_sample``)
- ``trials``: a program can be run on many numbers, each time as if for the first time (``bp.provoke``)
- ``bridged``: a value can get the history of another value (experiments of ``bp.explain``)
- ``bridges``: the same in a program that takes gradients by itself
- ``errors``: it knows more about the framework's errors than their messages say
- ``useless``: it finds gradients that exist but are useless (``bp.explain`` of a script)
- ``graph_facts``: it can tell from a tensor alone what it was computed from (``bp.explain`` of a tensor)
- ``second_order``: gradients of a recording can be differentiated again (``create_graph=True``)
- ``hessian``: Hessian-vector products with respect to values in a program (``bp.hvp``, ``bp.curvature``)

Attributes of a ``Tape``:

- ``tap``: the program continues with another tensor in place of each tensor that it computes
- ``undifferentiated``: values that the program reads and no tape can follow
- ``unfinished``, ``unnamed``: facts about captures before backward, and about tensors without a name

Base classes of a tape:

- ``Versions``: a tensor can get other contents and stay the same object
- ``Writes``: a write also reaches other names, through shared memory
- ``Late``: a captured tensor may begin to require a gradient later
- ``KeptGradients`` (only the tape of a block): gradients that tensors keep, which the program may read as None
- ``Recompute``: parts of the program run once more during backward, as checkpoints do
- ``Replaces``: the program can continue with another tensor, or another gradient
- ``Staging``: the framework traces whole functions, and may discard a trace
- ``Differentiator`` (only the tape of a block): backward runs when the block is over

A feature that needs a missing capability is left out, or refused with a message of ``backprobe.backends.refusals``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from types import CodeType, FrameType
from typing import Any, Protocol

from backprobe.backends.facts import Around, Effect, Ran, Root
from backprobe.record.reasons import Reason
from backprobe.record.source import Source

# writes, late histories, recomputation


class Versions(ABC):
    """Tensors that can get other contents and stay the same object."""

    @abstractmethod
    def version(self, tensor: Any) -> int:
        """A number that changes when the tensor's memory is written."""

    @property
    def counter(self) -> Callable[[Any], int]:
        """A function that returns the same, faster if possible. It may raise RuntimeError for a tensor without a count
        of writes.
        """
        return self.version

    def versions(self, tensors: Sequence[Any]) -> list[int]:
        """The same for several tensors. Called after each statement that may write, with all live named tensors."""
        return [self.version(tensor) for tensor in tensors]

    @abstractmethod
    def effect(self, function: Any, flagged: bool) -> Effect:
        """What calling ``function`` may do; ``flagged`` if the call has a keyword such as ``out`` or ``inplace``."""

    def report(self, owners: Sequence[Any]) -> None:
        """The forwards of these modules are observed, so a call of one makes no unobserved write."""
        return


class Writes(ABC):
    """Writes that reach other names, through shared memory."""

    @abstractmethod
    def targets(self, function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Any]:
        """The tensors that this call may write to."""

    @abstractmethod
    def writing(self, tensor: Any) -> None:
        """The program is about to write to this tensor: save the numbers that the write will overwrite."""

    @abstractmethod
    def written(self, tensor: Any) -> None:
        """The program has written to this tensor."""

    @abstractmethod
    def expose(self, tensor: Any) -> None:
        """The program takes a handle through which it may write to this tensor without being observed."""

    @abstractmethod
    def capture(
        self, tensor: Any, around: Callable[[], Around] | None, previous: Any | None = None, through: bool = False
    ) -> Any:
        """``Tape.capture``, also for a tensor that was written.

        If ``around`` is None, a later call of ``decide`` says what the tensor was computed from. ``previous`` is the
        earlier capture of the same object, if there is one. ``through`` says if the write went through this object.
        """

    def captures(self, tensors: Sequence[Any]) -> Sequence[Any]:
        """The same for several tensors that have no capture yet."""
        return [self.capture(tensor, None) for tensor in tensors]

    undecided: Collection[Any]
    """The captures without a history, for a reason that is not known yet."""

    @abstractmethod
    def decide(self, capture: Any, around: Around) -> None:
        """Find out why one of these captures has no history; ``around`` is what it was computed from."""

    has_found: bool = False
    """Will ``overwritten`` or ``detached`` return anything?"""

    @abstractmethod
    def overwritten(self) -> Sequence[Any]:
        """The captures whose memory was written since the last call without the framework's notice."""

    @abstractmethod
    def detached(self) -> Sequence[Any]:
        """The captures whose tensors have lost their history, but not their contents, since the last call."""


class Late(ABC):
    """Histories that come late: a captured tensor may begin to require a gradient."""

    waiting: Collection[Any]
    """The captures that have no history yet, and may get one."""

    before_late: Callable[[], object] = staticmethod(tuple)
    """Called before a capture gets its history late. Values computed from it before that have no history."""

    @abstractmethod
    def look_again(self, at: tuple[str, int] | None = None) -> None:
        """The program has run a statement, which may give captures a history. ``at`` is its file and line, if known."""

    @abstractmethod
    def seen_again(self, capture: Any) -> None:
        """The same for a single capture, whose tensor has just got another name."""

    @abstractmethod
    def entering(self, frame: FrameType) -> None:
        """The program enters a function. The work up to now belongs to the calling line."""


class AtEnd(ABC):
    """The tape of a block whose program may run backward itself. If the program did not, the tape can."""

    @abstractmethod
    def run_backward(self, root: Root, captures: Sequence[Any]) -> None:
        """Take the gradients of an output after the program has ended. The graph is kept for this purpose."""


class KeptGradients(ABC):
    """Tensors that keep their gradients, such as in ``.grad``, for the program to read; None if there is none."""

    count: int
    """The number of kept gradients that the program has read in order to use them."""

    @abstractmethod
    def is_none(self, tensor: Any, is_item: bool) -> bool:
        """Will the program find None when it reads the gradient of this tensor, or of an item of the tensor?

        An item is another tensor. False if the answer would disturb the program, for example by a warning.
        """

    @abstractmethod
    def none_read(self, tensor: Any, text: str, at: Source, is_item: bool) -> None:
        """The program is about to read None at this line; ``text`` is how the program spells the read."""

    @abstractmethod
    def assigned(self, tensor: Any, at: Source) -> None:
        """The program has assigned a gradient, or None, to the attribute that keeps a tensor's gradient."""

    @abstractmethod
    def clears(self, owner: Any, at: Source) -> None:
        """The program is about to clear all gradients that belong to this object."""

    @abstractmethod
    def may_give_none(self, frame: FrameType) -> bool:
        """Is this the frame of a function that returns gradients, and may return None for some of them?"""

    @abstractmethod
    def gave(self, frame: FrameType, returned: Any, texts: Sequence[str], at: Source) -> None:
        """That function has returned ``returned``. ``texts`` are its inputs as the program spells them, if known."""


class Recompute(ABC):
    """Parts of the program that run once more during backward."""

    running_pass: Callable[[], int]
    """The number of the running backward pass, or a negative number if there is none, so that nothing is recomputed."""

    runs_once: Callable[[], bool]
    """Is it certain that the code that runs now will not be recomputed? Then ``to_be_repeated`` is not called."""

    @abstractmethod
    def repeated(self) -> Hashable | None:
        """The part that is being recomputed; None in the first run of the program."""

    @abstractmethod
    def to_be_repeated(self) -> Hashable | None:
        """The part that runs now without a history, and will be recomputed with one."""

    @abstractmethod
    def computed_again(self, capture: Any, again: Any) -> None:
        """A capture of the first run was recomputed as ``again``, which has the history."""


# journals


class Journals(ABC):
    """Values may be captured some time after they were bound, if nothing was written in between."""

    @abstractmethod
    def gives_history(self, before: bool = True) -> bool | None:
        """Do values that are computed now get a history? None in a transform, mode, checkpoint or backward pass.

        ``before`` is the answer to the last call.
        """

    @property
    @abstractmethod
    def circumstances(self) -> Sequence[Callable[[], Any]]:
        """Functions: as long as each returns the same, ``gives_history`` does so too."""

    @property
    @abstractmethod
    def hooks_of(self) -> Callable[[Any], Sequence[Any]]:
        """The containers of the hooks that run when a module is called."""

    @abstractmethod
    def giving_history(self, on: bool) -> AbstractContextManager[object]:
        """Inside this context history is recorded, or is not recorded, whatever mode the program has set."""

    @abstractmethod
    def hide(self, captures: Sequence[Any]) -> None:
        """These captures were written to before they were captured, so their gradients are not known."""

    @abstractmethod
    def natures(self, tensors: Sequence[Any]) -> Sequence[Any]:
        """For each tensor, a key that decides whether and how it is captured. Equal keys mean equal treatment."""


# replacing


class Replaces(ABC):
    """The program can continue with a replaced tensor, or with a replaced gradient."""

    compared: Sequence[str] = ("shape", "dtype", "device")
    """The properties in which a tensor and its replacement must agree."""

    @abstractmethod
    def handed(self, tensor: Any) -> Any:
        """The tensor that a replacing function receives; if the function writes to it, no other name is affected."""

    @abstractmethod
    def as_tensor(self, new: Any, like: Any) -> Any:
        """A tensor of this framework with these numbers; None if ``new`` is neither a tensor nor numbers."""

    @abstractmethod
    def instead(self, new: Any, original: Any, is_given: bool) -> Any:
        """The tensor with which the program continues: it has no name, and is differentiated if the original is.

        ``is_given`` says that ``new`` belongs to the user. Otherwise a function has made it from the original.
        """

    @abstractmethod
    def mixed(self, new: Any, original: Any, index: tuple[Any, ...]) -> Any:
        """A tensor that is ``new`` at this index and ``original`` elsewhere."""

    @abstractmethod
    def like(self, array: Any, tensor: Any) -> Any:
        """A NumPy array as a tensor with the dtype and device of another tensor."""

    @abstractmethod
    def with_numbers(self, new: Any, original: Any) -> Any:
        """A tensor without a name, with the numbers of ``new`` and the history of the original."""

    @abstractmethod
    def linked(self, value: Any, sources: Sequence[Any]) -> Any | None:
        """The result of ``Backend.bridged``: the value, with the histories of all these sources added to its own."""

    @abstractmethod
    def original_value(self, tensor: Any) -> Callable[[], Any]:
        """A function that still returns the tensor's present value after the program has ended."""

    @abstractmethod
    def with_gradient(self, tensor: Any, change: Callable[[Any], Any]) -> Any:
        """The tensor with which the program continues. The given tensor's gradient becomes what ``change`` returns."""

    @abstractmethod
    def runs_again(self) -> bool:
        """Is the code that runs now being recomputed during backward?"""

    def is_tracing(self) -> bool:
        """Is the code that runs now being traced, so that it may be traced again?"""
        return False


# staging, models


class Staging(ABC):
    """A framework that traces functions as a whole."""

    @abstractmethod
    def staged(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Call a function, and record the insides of its loops as well."""

    @abstractmethod
    def outside(self, capture: Any) -> Any:
        """A captured value in the form that the program can use after the run; None if there is no such form."""

    @abstractmethod
    def is_discarded(self, capture: Any) -> bool:
        """Was this captured in a trace that the framework discarded before it traced again?"""


class Models(Protocol):
    """The models of a framework."""

    replaces_parameters: bool = False
    """Does the program continue with what ``ModuleObserver.parameter`` returns?"""

    libraries: Collection[str] = ()
    """The packages whose modules belong to the framework. Locals of their forwards are not part of a program."""

    parameters: Callable[[Any], Mapping[str, Any]] | None = None
    """The objects that are the parameters of a model, by path."""

    buffers: Callable[[Any], Mapping[str, Any]] | None = None
    """The state of a model that gets no entry, by path, such as the running statistics of a normalisation."""

    @abstractmethod
    def is_model(self, value: Any) -> bool: ...

    def in_place(self, model: Any) -> Collection[str]:
        """The paths of the modules that are configured to write in place."""
        return ()

    @abstractmethod
    def call(self, model: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> ModelCall:
        """A call of a model that is about to be made."""


class ModelCall(Protocol):
    """One call of a model."""

    @property
    def inputs(self) -> Mapping[str, Any]:
        """The parts of the model, and of its arguments, that ``Tape.run`` makes differentiable. Empty if the flags that
        they have are kept.
        """
        return {}

    @property
    @abstractmethod
    def forward(self) -> Any:
        """The model's own function that this call runs."""

    @abstractmethod
    def module_paths(self) -> Iterable[str]:
        """The paths of the modules that can run; the model itself is ""."""

    def forwards(self) -> Mapping[str, Any]:
        """The function that each module runs, by the module's first path, as far as known before the call."""
        return {"": self.forward}

    @abstractmethod
    def parameter_paths(self) -> Iterable[str]: ...

    def kinds(self) -> Mapping[str, str]:
        """The class names of modules, by path."""
        return {}

    @property
    def is_known(self) -> bool:
        """Is ``module_paths`` complete? Some modules are only created when the model first runs."""
        return True

    def hidden_paths(self) -> Mapping[str, Reason]:
        """The modules that run unobserved, and why."""
        return {}

    @abstractmethod
    def run(self, inputs: Mapping[str, Any], observer: ModuleObserver) -> Any:
        """Call the model. Meanwhile its parameters and modules report to the observer."""

    def finish(self, returned: Any, later: list[Callable[[], None]]) -> Any:
        """The call is over. Returns the model's result, made from what ``run`` returned.

        Steps that must wait until the program has been differentiated are added to ``later``.
        """
        return returned


@dataclass(frozen=True)
class ModuleObserver:
    """Callbacks of the model form. They replace forwards by reporting ones, and receive what modules return."""

    parameter: Callable[[str, Any], Any]  # (path, parameter) -> what replaces it, or itself
    parameters: Callable[[Sequence[tuple[str, Any]]], Sequence[Any]]  # the same for several parameters at once
    wants_output: Callable[[str], bool]
    wants_locals: Callable[[str], bool]
    rewritten: Callable[[str, Any], Any]  # (path, forward) -> reporting forward, or None
    returned: Callable[[str, Any], Any]  # (path, what the module returned) -> what replaces it
    writing: Callable[[Any], None]  # (inputs of a module that works in place and is about to run)
    written: Callable[[Any], None]  # (inputs of a module that has worked in place)
    wants_parameter: Callable[[str], bool] = lambda path: True  # if False, the parameter need not be reported
    given: Callable[[Any], None] = lambda inputs: None  # (inputs of the model itself, which is about to run)
    executed: set[str] = field(default_factory=set)  # the paths of the modules that have returned
    called: list[Any] | None = None  # alternates: the path of a module, then the code and place that called it
    kinds: dict[str, type] = field(default_factory=dict)  # by path: the class of a module that directly has parameters
    hooks: dict[str, list[CodeType]] = field(default_factory=dict)  # by path: what runs before or after its forward
    # a cache of the backend for what it derives from these callbacks, kept for the next block
    known: dict[Any, Any] = field(default_factory=dict)
    journal: Callable[[Any], Any] | None = None  # (key that distinguishes the model) -> a journal of its first call


# blocks


class Differentiator(ABC):
    """Differentiates a block when it is over, if the program does not do so itself."""

    @abstractmethod
    def follow(self, tensors: Sequence[Any]) -> None:
        """The program is about to read these tensors, which it did not compute. They are differentiated from now on."""

    @abstractmethod
    def made(self, tensor: Any) -> int:
        """A number that grows in the order in which the block computes tensors; 0 for other tensors."""

    counts = False
    """Should the outcome be reported for the parameters of which the program itself takes gradients?"""

    heard: Callable[[Sequence[Any], Any], None] | None = None
    """(targets, gradients): called when the program itself has differentiated and nothing records it."""

    gives = "gradient()"
    """The call by which programs differentiate. It names a target that no variable holds."""

    def targets(self) -> Sequence[Any]:
        """The values that the program itself differentiated, except those of which only the gradient was used."""
        return ()

    def targets_of(self, values: Sequence[Any]) -> Sequence[Any]:
        """What the program differentiated, if some of it is among these values, which are in order of computation.

        Empty if the last value was computed from more than gradients. An example is a loss with a gradient penalty,
        which the program itself does not differentiate.
        """
        return ()

    def own_roots(self) -> Sequence[Root]:
        """The starting points of the passes that the program itself ran, one for each output, in order."""
        return ()

    @abstractmethod
    def differentiate(self, ran: Ran) -> None:
        """The program is over: run backward, once from each root."""

    @abstractmethod
    def give_up(self, why: Reason) -> None:
        """The program is over, and cannot be differentiated for this reason."""
