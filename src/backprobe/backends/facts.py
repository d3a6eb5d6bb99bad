"""Requests to backends and the facts that they report, as plain data.

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
    WRITES = "writes"  # may write to some of its arguments: see `Tape.targets`
    AS_ASKED = "as asked"  # writes to the arguments that `Tape.targets` names, and to nothing else
    UNKNOWN = "unknown"  # cannot be seen into


@dataclass(frozen=True)
class Options:
    """The options of ``probe`` that a backend carries out."""

    strategy: str = "edges"
    values: str = "alias"
    create_graph: bool = False
    partials: bool | str = False
    nonfinite: bool = False
    updates: bool = True  # with ``nonfinite``: are parameters looked at when they are written to?
    retain_graph: bool = False  # the program goes on to use its values
    backward: bool = True  # else the program is run, and nothing differentiated
    several: bool = False  # does backward run from several outputs, one after another?
    flow: Callable[[str, Any], Any] | None = None
    """With ``partials``: what is kept of the contribution that flows back to the value of this name, in its place."""


class Description(NamedTuple):
    """Shape, dtype and device of a value as the framework gives them; None for what is not a tensor."""

    shape: tuple[int, ...] | None = None
    dtype: str | None = None
    device: str | None = None


NOTHING_KNOWN = Description()


@dataclass(frozen=True)
class WrittenVersion:
    """A statement that wrote a version of a Variable, and the positions of the captures that went into it.

    ``followed`` are those of which the backend knows where they went.
    """

    source: Source
    captures: tuple[int, ...]
    followed: Set[int]


@dataclass(frozen=True)
class Outcome:
    """What the backward pass gave one captured value."""

    status: GradStatus
    why: Reason | None
    value: Any
    grad: Any = None
    inputs: tuple[Edge, ...] = ()
    axes: tuple[str, ...] = ()  # see ``Entry``
    cause: Source | None = None  # see ``Entry``
    made: tuple[BackwardOp, ...] | None = None  # see ``Finiteness``
    is_leaf: bool | None = None  # see ``Entry``
    leaves_reached: bool = False  # see ``Entry``
    version: int | None = None  # of the value, where it shares the memory of the program's own: see ``Alias``
    written: WrittenVersion | None = None  # where the backend knows what wrote it


OwnCall = tuple[str, Source | None, tuple[int, ...], bool, tuple[str, ...]]
"""What was called, its line, the positions of the captures that it was limited to, whether it was given cotangents, and
its other arguments."""


@dataclass(frozen=True)
class OwnPass:
    """A pass that the program ran itself: the positions of the captures that it began at, and whether it is one of
    those whose gradients add up in the leaves, as ``backward()`` does and ``autograd.grad`` does not.
    """

    begun_at: tuple[int, ...]
    adds_up: bool
    calls: Sequence[OwnCall] = ()


@dataclass(frozen=True)
class Backward:
    """What running backward gave: the outcome of each capture, and their positions in the order they were visited."""

    outcomes: Sequence[Outcome]
    order: tuple[int, ...]
    sums: PathSums | None = None
    notes: tuple[tuple[int, Reason], ...] = ()  # about captures
    scales: tuple[float | None, ...] = ()  # see ``Record``
    updates: tuple[Update, ...] = ()
    none_given: tuple[NoneGiven, ...] = ()  # see ``Record``
    none_reads: tuple[NoneRead, ...] = ()  # see ``Record``
    training: Training | None = None  # see ``Record``
    inputs: Sequence[Any] = ()  # what came to each input that was made differentiable, None for nothing
    own: OwnPass | None = None  # None where the probe ran it, or where nothing ran


@dataclass(frozen=True)
class Root:
    """What one backward pass begins at: the output to differentiate, and its cotangent, None for ones.

    In a block the output may be a list of tensors, which are summed. ``meant`` is None where the probe begins the pass;
    of one that the program has run itself it says whether its gradients are meant where nothing is said.
    """

    output: Any
    cotangent: Any = None
    meant: bool | None = None

    @property
    def targets(self) -> list[Any]:
        """The tensors that it begins at."""
        return self.output if isinstance(self.output, list) else [self.output]


@dataclass(frozen=True)
class Ran:
    """A program that has run: its result, what is differentiated of it, one backward pass each, and the captures."""

    result: Any
    roots: Sequence[Root]
    captures: Sequence[Any]
    flow: Callable[[int, Any], Any] | None = None
    """What is kept of the contribution that flows back to the capture at a position: see ``Options``."""


@dataclass(frozen=True)
class Summary:
    """Statistics of one tensor over its finite values: root mean square, largest magnitude, and how many are not."""

    size: int
    nonfinite: int
    rms: float
    largest: float


@dataclass(frozen=True)
class Failure:
    """The facts behind an error that the framework raised, by positions of captures.

    ``kind`` is the word for it, and ``values`` what it is about. ``savers`` keep it for backward, each with what the
    framework calls the operation, and ``writers`` are what it was written as later. ``users`` go on from it, and the
    call of backward at ``earlier`` has gone through it; ``is_one_forward`` says that they were there before that call.
    ``root`` is the tensor that backward was to run from. ``lines`` are those of writes that no capture came of.
    ``module`` is the framework's own module in which the error arose, as it prints itself, and ``hook`` says that what
    it wrote to was made by a hook. ``carried`` are the values of an earlier step that a backward pass went back to.
    ``text`` is the part of the program's line that it is about, or the names of parameters, where that is known.
    ``outputs`` are what was to be differentiated.
    """

    kind: str
    values: tuple[int, ...] = ()
    savers: tuple[tuple[int, str], ...] = ()
    writers: tuple[int, ...] = ()
    users: tuple[int, ...] = ()
    earlier: Source | None = None
    is_one_forward: bool = False
    root: Any = None
    lines: tuple[Source, ...] = ()
    module: str = ""
    hook: bool = False
    carried: tuple[int, ...] = ()
    text: str = ""
    outputs: tuple[int, ...] = ()


@dataclass(frozen=True)
class GraphFacts:
    """What the framework's graph alone shows about an output and a tensor, without a recording.

    ``op`` is the operation that the tensor was computed by, ``leaves`` what it was computed from. ``again`` are the
    operations of the output's graph that do the same to the same inputs, ``shared`` its leaves that lie in the tensor's
    memory, ``written`` its operations whose saved values were written since. ``own`` are its operations whose backward
    is written in Python, which may give None, and ``checkpoints`` those of them that run a backward pass of their own.
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
"""The captures that a value was computed from, as far as the source shows, and whether the source mentions a
differentiated value besides them."""


@dataclass(frozen=True)
class GraphNode:
    """One value of a graph that has names of its own, before it runs."""

    names: tuple[str, ...]  # (":u", ":split.1") without counts, the one to print first
    is_parameter: bool = False
    by_default: bool = True  # is it recorded when no pattern is given?
    is_output: bool = False  # is it what is differentiated?
    op: str = ""
    described: Description = NOTHING_KNOWN  # as far as the graph shows
