"""What a backend hands over: named values with their gradients, as frozen data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from backprobe.errors import NoGradient, Overwritten
from backprobe.record.stamp import Stamp


class GradStatus(StrEnum):
    """Why an entry has its gradient, or has none."""

    OK = "ok"
    NOT_CONNECTED = "not_connected"
    DETACHED = "detached"
    NO_GRAD = "no_grad"
    FROZEN = "frozen"
    NOT_FLOAT = "not_float"
    NOT_TENSOR = "not_tensor"
    NOT_EXECUTED = "not_executed"
    BACKWARD_NOT_RUN = "backward_not_run"
    OPAQUE = "opaque"

    @property
    def meaning(self) -> str:
        """One sentence for people."""
        return MEANINGS[self]


MEANINGS = {
    GradStatus.OK: "The gradient is there.",
    GradStatus.NOT_CONNECTED: "The value has a history, but no path leads from it to the output.",
    GradStatus.DETACHED: "It was computed from values that are differentiated, and the computation cut the graph.",
    GradStatus.NO_GRAD: "It was computed while gradients were switched off (no_grad or inference_mode).",
    GradStatus.FROZEN: "Nothing that it was computed from requires a gradient.",
    GradStatus.NOT_FLOAT: "Its dtype is neither floating point nor complex, so it has no derivative.",
    GradStatus.NOT_TENSOR: "It is not a tensor.",
    GradStatus.NOT_EXECUTED: "The code that computes it did not run.",
    GradStatus.BACKWARD_NOT_RUN: "No backward pass was run.",
    GradStatus.OPAQUE: "The framework does not let this gradient be captured rightly.",
}

LINES_OF_THEIR_OWN = (GradStatus.DETACHED, GradStatus.NO_GRAD, GradStatus.NOT_FLOAT)
"""The statuses that the line which computes a value gives it."""

KEPT = {"static": True}
"""Of fields that hold tensors which are the recording's: a program that looks at an entry has not made them."""


def plain_text(value: Any) -> str:
    """A number or None as text. Python itself refuses to write out an integer of thousands of digits."""
    try:
        return repr(value)
    except ValueError:
        return f"an integer of {value.bit_length()} bits"


@dataclass(frozen=True)
class Source:
    """Where a value got its name: file, line (from 1), the text of that line, and the expression that computes it.

    The expression is empty where none stands for exactly this value: an argument, one part of what a call returned.
    ``calls`` are the functions that it called, in the order in which it came to them: ``torch.relu``, by the library
    and the function's own name, and an empty text for a function of the user's that was followed.
    ``below`` are the lines that follow, where the statement goes over several.
    """

    file: str
    line: int
    text: str
    expression: str = ""
    calls: tuple[str, ...] = ()
    below: tuple[str, ...] = ()

    @property
    def statement(self) -> str:
        """The whole statement, or of one that has a body the head."""
        return "\n".join((self.text, *self.below))


@dataclass(frozen=True)
class Edge:
    """One recorded value that flows directly into another, and what was asked for of the derivative along that way.

    ``partial`` is the local partial: the derivative of the value towards this input alone, the other inputs held
    still. It has the input's shape where the value has one element; otherwise it is there only where
    ``partials="full"`` asked for the whole Jacobian block, of the value's shape followed by the input's.
    ``contribution`` is what flows into the input's gradient along this edge, the value's own gradient times the local
    partial (a vector-Jacobian product), in the input's shape. Either is None where it was not asked for or not there.

    >>> import torch, backprobe as bp
    >>> bp.probe(lambda x: x * 3, partials=True)(torch.tensor(2.0))["return"].inputs
    (Edge(name='x', partial=tensor(3.), contribution=tensor(3.)),)
    """

    name: str
    partial: Any = field(default=None, metadata=KEPT)
    contribution: Any = field(default=None, metadata=KEPT)


@dataclass(frozen=True)
class Read:
    """One recorded value that an expression mentions, and how the expression spells it.

    ``u``, ``self.scale``, ``pair.0`` for a leaf of ``pair``, and ``func()`` for what a call of ``func`` returned, once
    for each call in the order in which they returned.

    >>> import torch, backprobe as bp
    >>> bp.probe(lambda x: x * 3)(torch.tensor(2.0))["return"].reads
    (Read(spelled='x', name='x'),)
    """

    spelled: str
    name: str


@dataclass(frozen=True)
class IndirectInput:
    """One recorded value that went into another by a way that no expression of its own tells.

    It went ``through`` a name that holds no tensor, such as a NumPy array: ``source`` is the line that took it from the
    value ``name``, which that line calls ``spelled``. Or a statement wrote in place to what is called ``through``.

    >>> import torch, backprobe as bp
    >>> def f(x):
    ...     n = x.detach().numpy()
    ...     return torch.from_numpy(n) * x
    >>> [(way.through, way.name, way.source.expression) for way in bp.probe(f)(torch.tensor(2.0))["return"].indirect]
    [('n', 'x', 'x.detach().numpy()')]
    """

    spelled: str
    name: str
    through: str
    source: Source


@dataclass(frozen=True)
class PathSums:
    """Whether the contributions along all edges sum to the recorded gradients, as the chain rule says they must.

    By induction over the edges this is the sum over all paths of the products of the partials along them. ``judged``
    is how many gradients were compared, ``difference`` the largest relative difference and ``worst`` its entry, and
    ``unjudged`` names those that the sum says nothing about: a hook of the user's changes them, or they are nested.
    ``agree`` is whether half the digits of the coarsest dtype that takes part are the same in each.

    >>> import torch, backprobe as bp
    >>> bp.probe(lambda x: x * 3, partials=True)(torch.tensor(2.0)).path_sums
    PathSums(judged=2, difference=0.0, worst=None, agree=True, unjudged=())
    """

    judged: int
    difference: float
    worst: str | None
    agree: bool
    unjudged: tuple[str, ...] = ()


class WhyNone(StrEnum):
    """Why a tape of the program's own gave None."""

    NOT_WATCHED = "not_watched"  # it is no trainable Variable, and was not given to watch()
    OUTSIDE = "outside"  # something on the way was computed while the tape did not record
    NO_WAY = "no_way"  # no way leads from it to what the tape differentiated
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class NoneGiven:
    """A gradient that the program asked a tape of its own for at ``source``, and that came back as None.

    ``name`` is the entry that it was asked towards, or what the framework calls a Variable without an entry.
    ``outside`` names the entries on the way that were computed while the tape did not record.
    """

    name: str
    source: Source
    why: WhyNone
    outside: tuple[str, ...] = ()


@dataclass(frozen=True)
class Lost:
    """Stands for a value that was overwritten where no copy could be taken before."""

    reason: str


@dataclass(frozen=True)
class Nonfinite:
    """How many numbers of a tensor are NaN and how many are infinite, of how many.

    >>> import torch, backprobe as bp
    >>> bp.probe(lambda x: 1 / x, nonfinite=True)(torch.tensor(0.0))["return"].finiteness.value
    Nonfinite(nan=0, inf=1, of=1)
    """

    nan: int
    inf: int
    of: int

    @property
    def is_finite(self) -> bool:
        """Is there neither?"""
        return not (self.nan or self.inf)

    def __str__(self) -> str:
        """``1 NaN and 2 Inf of 8``, or ``finite``."""
        kinds = [f"{count} {kind}" for count, kind in ((self.nan, "NaN"), (self.inf, "Inf")) if count]
        return f"{' and '.join(kinds)} of {self.of}" if kinds else "finite"


@dataclass(frozen=True)
class BackwardOp:
    """One operation in the backward of an entry that made a NaN or Inf: ``operation`` is what the framework calls it.

    ``towards`` is the printed name of the entry whose gradient it is a part of, None where that has no name. ``given``
    is what came to the operation and ``made`` what it gave: ``finite``, ``inf``, or ``nan`` where a NaN was among it.
    """

    operation: str
    towards: str | None
    given: str
    made: str


@dataclass(frozen=True)
class Finiteness:
    """What ``nonfinite=True`` found about one entry: its value and its gradient, None where there is nothing to judge.

    ``made`` are the operations of its line that took a finite gradient and gave one that is not, or a NaN for an Inf;
    None where the framework does not let each operation be seen.
    """

    value: Nonfinite | None
    grad: Nonfinite | None
    made: tuple[BackwardOp, ...] | None = None


@dataclass(frozen=True)
class Update:
    """A statement that wrote NaN or Inf into parameters which held none, or NaN into those that held Inf.

    ``size`` is how many these are, and ``parameters`` what the program calls them, where it does. ``optimizer`` is the
    type and learning rate of the optimizer that has them, if one is at hand. ``gradient`` is what their gradients held,
    and ``made`` what they hold now: ``finite``, ``inf``, or ``nan`` where a NaN was among it; ``none`` where there was
    no gradient. ``source`` is the line and ``after`` the printed name of the last entry before it, None where that is
    not known.
    """

    parameters: tuple[str, ...]
    size: int
    optimizer: str
    gradient: str
    made: str
    source: Source | None
    after: str | None


@dataclass(frozen=True, eq=False)
class Entry:
    """One named value of a recording and the gradient of the output towards it.

    ``name`` is the printed name and ``aliases`` the other names of the same value. ``shape`` and ``dtype`` describe
    the value as the framework does (dtype without the framework's prefix). ``source`` is None for what no line of
    code binds, such as a module's parameter. ``op`` is the operation as the source spells it. ``inputs`` are the
    recorded values that flow directly into this one; values that are not recorded are skipped over. ``reads`` are the
    recorded values that its expression mentions, whether or not they are differentiated. ``axes`` says what the
    leading axes of value and gradient count where a value is computed many times at once, as inside ``jax.lax.scan``
    and ``jax.vmap``: ``("step",)`` for each step of a loop, ``("batch",)`` for each example. It is empty elsewhere.
    ``indirect`` are the values that went into this one by ways that its expression does not tell. ``cause`` is the
    line that took the gradient away, where it is missing and that is another line than the entry's own; there may be
    more than this one (``bp.explain``).
    ``finiteness`` is there where ``nonfinite=True`` asked for it. ``is_leaf`` says whether gradients end at the value
    itself, as at a parameter; it is None where there is no history, or the framework has no such thing.
    ``leaves_reached`` says of a value that nothing came back to that backward reached all leaves that it is computed
    from, by other ways; where a backend cannot tell, it is False.
    """

    name: str
    aliases: tuple[str, ...]
    status: GradStatus
    reason: str
    shape: tuple[int, ...] | None
    dtype: str | None
    device: str | None
    source: Source | None
    op: str
    inputs: tuple[Edge, ...]
    reads: tuple[Read, ...]
    held_value: Any = field(repr=False, metadata=KEPT)
    held_grad: Any = field(repr=False, metadata=KEPT)
    axes: tuple[str, ...] = ()
    indirect: tuple[IndirectInput, ...] = ()
    cause: Source | None = None
    finiteness: Finiteness | None = None
    is_leaf: bool | None = None
    leaves_reached: bool = False

    @property
    def value(self) -> Any:
        """The value, as it was when it got this name. Raises ``Overwritten`` where that is lost."""
        if isinstance(self.held_value, Lost):
            raise Overwritten(
                f"the value of {self.name!r} is lost",
                asked=f"rec[{self.name!r}].value",
                found=self.held_value.reason,
                why="the value is kept as an alias, and something wrote to its memory out of sight",
                next='bp.probe(..., values="copy")',
            )
        return self.held_value

    @property
    def grad(self) -> Any:
        """The gradient of the output towards this value, shaped like it. Raises ``NoGradient`` where there is none.

        It is read-only by contract: several entries may share its memory.
        """
        if self.status is not GradStatus.OK:
            raise NoGradient(
                f"{self.name!r} has no gradient: {self.status}",
                asked=f"rec[{self.name!r}].grad",
                found="\n".join([self.reason, *self._line_of_cause()]),
                why=self.status.meaning,
                next=f"bp.explain(rec, {self.name!r}), or rec[{self.name!r}].grad_or_none for None",
            )
        return self.held_grad

    def _line_of_cause(self) -> list[str]:
        source = self.cause or (self.source if self.status in LINES_OF_THEIR_OWN else None)
        return [] if source is None else [f"{source.file}:{source.line}: {source.text.strip()}"]

    @property
    def grad_or_none(self) -> Any:
        """The gradient, or None where there is none."""
        return self.held_grad if self.status is GradStatus.OK else None

    @property
    def partials(self) -> Mapping[str, Any]:
        """Local partials by input name; empty unless they were asked for."""
        return {edge.name: edge.partial for edge in self.inputs if edge.partial is not None}

    @property
    def contributions(self) -> Mapping[str, Any]:
        """What flows into each input's gradient from here, by input name; empty unless partials were asked for."""
        return {edge.name: edge.contribution for edge in self.inputs if edge.contribution is not None}


@dataclass(frozen=True)
class Record:
    """The waist: what every backend produces and everything else consumes.

    ``names`` maps each full name (all counts written) to the position of its entry, ``printed`` to its printed form.
    ``backward`` holds the positions of the entries in the order in which the backward pass visited them, ``outputs``
    of those that were differentiated. ``path_sums`` is there where partials were asked for.
    ``unseen`` are names the program has that were not selected, for suggestions. ``notes`` are sentences about what
    could not be seen. ``scales`` are the numbers by which the output was multiplied before it was differentiated, as
    ``GradScaler`` does, each once; None is among them where such a number is not known. ``buffers`` are those of a
    model that held NaN or Inf before it ran, by their paths; they are looked for with ``nonfinite=True``. So are
    ``updates``, in the blocks of PyTorch. ``framework`` is the one that the program is written in; ``backend`` has the
    arrays, which may be others after loading. ``none_given`` are gradients that tapes of the program's own did not
    give.
    """

    backend: str
    entries: tuple[Entry, ...]
    names: Mapping[str, int]
    printed: Mapping[str, str]
    backward: tuple[int, ...]
    outputs: tuple[int, ...]
    stamp: Stamp
    unseen: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    path_sums: PathSums | None = None
    scales: tuple[float | None, ...] = ()
    buffers: Mapping[str, Nonfinite] = field(default_factory=dict)
    framework: str = ""
    updates: tuple[Update, ...] = ()
    none_given: tuple[NoneGiven, ...] = ()
