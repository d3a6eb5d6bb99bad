"""Requests to backends, and the facts that backends report, as plain data.

Facts that become parts of a record refer to captures by position: see ``record.positions``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

from backprobe.record.entries import GradStatus
from backprobe.record.inputs import Edge, PathSums
from backprobe.record.none_gradients import NoneGiven, NoneRead
from backprobe.record.nonfinite import BackwardOp, Update
from backprobe.record.reasons import Reason
from backprobe.record.source import Source
from backprobe.record.training import Training


class Effect(Enum):
    """What a call may do to the memory of values that have names."""

    READS = "reads"  # certainly writes nothing
    WRITES = "writes"  # the function may write to some arguments: see `Writes.targets`
    AS_ASKED = "as asked"  # writes to the arguments that `Writes.targets` returns, and to nothing else
    UNKNOWN = "unknown"  # cannot be inspected


@dataclass(frozen=True)
class Options:
    """The options of ``probe`` that a backend carries out."""

    strategy: str = "edges"
    values: str = "alias"
    create_graph: bool = False
    partials: bool | str = False
    nonfinite: bool = False
    updates: bool = True  # with ``nonfinite``: are parameters examined when they are written?
    retain_graph: bool = False  # is the graph kept for later backward passes?
    backward: bool = True  # if False, the program only runs and nothing is differentiated
    several: bool = False  # does backward run from several outputs, one after another?
    flow: Callable[[str, Any], Any] | None = None
    """With ``partials``: (name, contribution) -> the part of the contribution that is kept. The contribution flows back
    to the value of that name.
    """


class Description(NamedTuple):
    """The shape, dtype and device of a tensor as the framework gives them; None for a value that is not a tensor."""

    shape: tuple[int, ...] | None = None
    dtype: str | None = None
    device: str | None = None


NOTHING_KNOWN = Description()


@dataclass(frozen=True)
class WrittenVersion:
    """A statement that wrote a version of a Variable, and the positions of the captures used to compute that version.

    ``followed`` are the captures that the gradient tape follows.
    """

    source: Source
    captures: tuple[int, ...]
    followed: Set[int]


@dataclass(frozen=True)
class Outcome:
    """The result of the backward pass for one captured value. Some fields are copied to the fields of an ``Entry``."""

    status: GradStatus
    why: Reason | None
    value: Any
    grad: Any = None
    inputs: tuple[Edge, ...] = ()
    axes: tuple[str, ...] = ()  # as in ``Entry``
    cause: Source | None = None  # as in ``Entry``
    made: tuple[BackwardOp, ...] | None = None  # as in ``Finiteness``
    is_leaf: bool | None = None  # as in ``Entry``
    leaves_reached: bool = False  # as in ``Entry``
    version: int | None = None  # the version of the value, if it shares memory with the program: see ``Alias``
    written: WrittenVersion | None = None  # the write that made the value, if the backend knows it


OwnCall = tuple[str, Source | None, tuple[int, ...], bool, tuple[str, ...]]
"""One call of the program that ran backward: its name and line, the positions of the captures to which it was limited,
whether it had cotangents, and the names of other options that were on.
"""


@dataclass(frozen=True)
class OwnPass:
    """A backward pass that the program ran itself.

    ``begun_at`` are the positions of the captures at which the pass began. ``adds_up`` says whether its gradients were
    accumulated in the leaves, as by ``backward()``, rather than returned, as by ``autograd.grad``.
    """

    begun_at: tuple[int, ...]
    adds_up: bool
    calls: Sequence[OwnCall] = ()


@dataclass(frozen=True)
class Backward:
    """The result of backward: the outcome of each capture, and the positions of captures in the order in which backward
    visited them.
    """

    outcomes: Sequence[Outcome]
    order: tuple[int, ...]
    sums: PathSums | None = None
    notes: tuple[tuple[int, Reason], ...] = ()  # position of a capture, and a note about it
    scales: tuple[float | None, ...] = ()  # as in ``Record``
    updates: tuple[Update, ...] = ()
    none_given: tuple[NoneGiven, ...] = ()  # as in ``Record``
    none_reads: tuple[NoneRead, ...] = ()  # as in ``Record``
    training: Training | None = None  # as in ``Record``
    inputs: Sequence[Any] = ()  # the gradient of each input that was made differentiable, or None
    own: OwnPass | None = None  # None if the probe ran the pass, or no pass ran


@dataclass(frozen=True)
class Root:
    """The start of one backward pass: the output to differentiate, and its cotangent, which is None for ones.

    In a block the output may be a list of tensors, which are summed. ``meant`` is None if the probe begins the pass. If
    the program ran the pass, ``meant`` says whether its gradients are the ones that the user wants by default.
    """

    output: Any
    cotangent: Any = None
    meant: bool | None = None

    @property
    def targets(self) -> list[Any]:
        """The tensors at which the pass begins."""
        return self.output if isinstance(self.output, list) else [self.output]


@dataclass(frozen=True)
class Ran:
    """A program that has run: its result, the roots of its backward passes, and the captures."""

    result: Any
    roots: Sequence[Root]
    captures: Sequence[Any]
    flow: Callable[[int, Any], Any] | None = None
    """(position, contribution) -> the part of the contribution that is kept. It flows back to the capture at this
    position; see ``Options``.
    """


@dataclass(frozen=True)
class Summary:
    """Statistics of one tensor: the root mean square and largest magnitude of its finite values, and the number of
    other values.
    """

    size: int
    nonfinite: int
    rms: float
    largest: float


@dataclass(frozen=True)
class Failure:
    """The facts behind an error that the framework raised. Captures are given by position.

    - ``kind`` is the code of the error, and ``values`` are the captures that it is about.
    - ``savers`` are the captures whose operation saved the value for backward, each with the framework's name of the
      operation.
    - ``writers`` are later versions of the value, and ``users`` are computed from the value.
    - ``earlier`` is the line of a backward call that went through the value. ``is_one_forward`` says that the graph of
      the failing call has no named value from after that call. ``is_older`` says that a freed part of the graph is
      older than the recording.
    - ``root`` is the tensor from which backward was to run.
    - ``lines`` are lines of the program: of the error, or of writes that led to no capture.
    - ``module`` is the framework's module in which the error arose, as text. ``hook`` says that a hook made the written
      tensor.
    - ``carried`` are values of an earlier step to which a backward pass returned.
    - ``text`` is the part of the program's line that the error is about, or names of parameters, if known.
    - ``outputs`` are the captures that were to be differentiated.
    """

    kind: str
    values: tuple[int, ...] = ()
    savers: tuple[tuple[int, str], ...] = ()
    writers: tuple[int, ...] = ()
    users: tuple[int, ...] = ()
    earlier: Source | None = None
    is_one_forward: bool = False
    is_older: bool = False
    root: Any = None
    lines: tuple[Source, ...] = ()
    module: str = ""
    hook: bool = False
    carried: tuple[int, ...] = ()
    text: str = ""
    outputs: tuple[int, ...] = ()


@dataclass(frozen=True)
class GraphFacts:
    """Facts about an output and a tensor that the framework's graph shows without a recording.

    ``op`` is the operation that computed the tensor, and ``leaves`` are the leaves from which the tensor was computed.
    These fields describe the output's graph:

    - ``again``: operations that apply the same operation to the same inputs
    - ``shared``: leaves that share the tensor's memory
    - ``written``: operations whose saved values have been overwritten since
    - ``own``: operations whose backward is written in Python and may return None
    - ``checkpoints``: those of ``own`` that run a backward pass of their own
    """

    output: str
    output_requires_grad: bool
    output_size: int
    output_is_leaf: bool
    tensor: str
    requires_grad: bool
    is_leaf: bool
    is_retained: bool
    is_inference: bool
    is_floating: bool
    op: str
    is_reached: bool
    leaves: tuple[Any, ...]
    output_leaves: tuple[Any, ...]
    again: tuple[str, ...]
    shared: tuple[Any, ...]
    written: tuple[str, ...]
    is_freed: bool
    own: tuple[str, ...] = ()
    checkpoints: tuple[str, ...] = ()


Around = tuple[Sequence[Any], bool]
"""The captures from which a value was computed, as far as the source shows, and whether the source mentions another
differentiated value as well.
"""


@dataclass(frozen=True)
class GraphNode:
    """One value of a graph whose values have names before the graph runs."""

    names: tuple[str, ...]  # such as (":u", ":split.1"), without counts; the first one is printed
    is_parameter: bool = False
    by_default: bool = True  # is the value recorded when no pattern is given?
    is_output: bool = False  # is the value the output to differentiate?
    op: str = ""
    described: Description = NOTHING_KNOWN  # facts about the value, as far as the graph shows them
