"""Entries and records: named values with their gradients, as frozen data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from backprobe.errors import NoGradient, Overwritten
from backprobe.record.inputs import KEPT, Edge, IndirectInput, PathSums, Read
from backprobe.record.nonfinite import Finiteness, Nonfinite, Update
from backprobe.record.positions import Position
from backprobe.record.reasons import Note, Reason
from backprobe.record.source import Source
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
"""The statuses that come from the line that computes the value itself."""


def plain_text(value: Any) -> str:
    """A number or None as text. Python itself refuses to write out an integer of thousands of digits."""
    try:
        return repr(value)
    except ValueError:
        return f"an integer of {value.bit_length()} bits"


class WhyNone(StrEnum):
    """Why one of the program's own tapes gave None."""

    NOT_WATCHED = "not_watched"  # it is not a trainable Variable and was not given to watch()
    OUTSIDE = "outside"  # something on the way was computed while the tape did not record
    NO_WAY = "no_way"  # no way leads from it to what the tape differentiated
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class NoneGiven:
    """A gradient that came back as None when the program asked one of its own tapes for it, at ``source``.

    ``name`` is the printed name of the entry ``at`` that it was asked for, or what the framework calls a Variable that
    has no entry. ``outside`` are the entries on the way that were computed while the tape did not record.
    """

    at: Position | None
    name: str
    source: Source
    why: WhyNone
    outside: tuple[Position, ...] = ()


@dataclass(frozen=True)
class Lost:
    """Stands for a value that was overwritten where no copy could be taken before."""

    why: Reason

    @property
    def reason(self) -> str:
        """Why it is lost, in a sentence."""
        return str(self.why)


@dataclass(frozen=True, eq=False, kw_only=True)
class Entry:
    """One named value of a recording and the gradient of the output with respect to it.

    ``name`` is the printed name and ``aliases`` the other names of the same value. ``why`` is the code of what took the
    gradient away, None where it is there; ``reason`` says it in a sentence. ``shape`` and ``dtype`` describe
    the value as the framework does (dtype without the framework's prefix). ``source`` is None for what no line of
    code binds, such as a module's parameter. ``op`` is the operation as the source spells it. ``inputs`` are the
    recorded values that flow directly into this one; values that are not recorded are skipped over. ``reads`` are the
    recorded values that its expression mentions, whether or not they are differentiated. ``axes`` says what the
    leading axes of value and gradient count where a value is computed many times at once, as inside ``jax.lax.scan``
    and ``jax.vmap``: ``("step",)`` for each step of a loop, ``("batch",)`` for each example. It is empty elsewhere.
    ``indirect`` are the values that went into this one in ways that its expression does not show. ``cause`` is the
    line that took the gradient away, where it is missing and that is another line than the entry's own; there may be
    more than this one (``bp.explain``).
    ``finiteness`` is there where ``nonfinite=True`` asked for it. ``is_leaf`` says whether gradients end at the value
    itself, as at a parameter; it is None where there is no history, or where the framework has no leaves.
    ``leaves_reached`` says of a value that nothing came back to that backward reached all leaves that it is computed
    from, along other paths; it is False where the backend does not know.
    """

    name: str
    aliases: tuple[str, ...]
    status: GradStatus
    why: Reason | None
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
    def reason(self) -> str:
        """Why there is no gradient, in a sentence; empty where there is one."""
        return "" if self.why is None else str(self.why)

    def is_because(self, *codes: str) -> bool:
        """Is the gradient missing for one of these reasons?"""
        return self.why is not None and self.why.code in codes

    @property
    def value(self) -> Any:
        """The value as it was when it got this name. Raises ``Overwritten`` where it was overwritten unseen."""
        if isinstance(self.held_value, Lost):
            raise Overwritten(
                f"the value of {self.name!r} is lost",
                asked=f"rec[{self.name!r}].value",
                found=self.held_value.reason,
                why="the value is kept as an alias, and something that backprobe does not see wrote to its memory",
                next='bp.probe(..., values="copy")',
            )
        return self.held_value

    @property
    def grad(self) -> Any:
        """The gradient of the output with respect to this value, in its shape. Raises ``NoGradient`` if it has none.

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


@dataclass(frozen=True, kw_only=True)
class Record:
    """A recording as data, which every backend produces and everything else reads.

    ``names`` maps each full name (all counts written) to the position of its entry, ``printed`` to its printed form.
    ``backward`` holds the positions of the entries in the order in which the backward pass visited them, ``outputs``
    of those that were differentiated. ``path_sums`` is there where partials were asked for.
    ``unseen`` are names the program has that were not selected, for suggestions. ``notes`` say what
    could not be seen. ``scales`` are the numbers by which the output was multiplied before it was differentiated, as
    ``GradScaler`` does, each once; None is among them where such a number is not known. ``buffers`` are those of a
    model that held NaN or Inf before it ran, by their paths; they are looked for with ``nonfinite=True``. So are
    ``updates``, in the blocks of PyTorch. ``framework`` is the one that the program is written in; ``backend`` has the
    arrays, which may be others after loading. ``none_given`` are gradients that the program's own tapes returned as
    None.
    """

    backend: str
    entries: tuple[Entry, ...]
    names: Mapping[str, Position]
    printed: Mapping[str, str]
    backward: tuple[Position, ...]
    outputs: tuple[Position, ...]
    stamp: Stamp
    unseen: tuple[str, ...] = ()
    notes: tuple[Note, ...] = ()
    path_sums: PathSums | None = None
    scales: tuple[float | None, ...] = ()
    buffers: Mapping[str, Nonfinite] = field(default_factory=dict)
    framework: str = ""
    updates: tuple[Update, ...] = ()
    none_given: tuple[NoneGiven, ...] = ()
