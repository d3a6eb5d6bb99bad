"""Entries and records: named values with their gradients, as frozen data."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, ClassVar, Protocol

from backprobe.errors import NoGradient, NotRecorded, Overwritten, UnknownName, labelled
from backprobe.markup import Printed, facts, shown
from backprobe.record.brief import path, sizes
from backprobe.record.held import Alias, Lost, plain_text
from backprobe.record.inputs import KEPT, Edge, IndirectInput, PathSums, Read
from backprobe.record.none_gradients import NoneGiven, NoneRead
from backprobe.record.nonfinite import Finiteness, Nonfinite, Update
from backprobe.record.options import Option
from backprobe.record.passes import Pass
from backprobe.record.positions import Position
from backprobe.record.reasons import COPY, LIMITED, WHY_LOST, Note, Reason
from backprobe.record.renamed import renamed
from backprobe.record.source import Source
from backprobe.record.stamp import Stamp
from backprobe.record.training import Training, UsedAt
from backprobe.record.typed import Generic, T


class GradStatus(StrEnum):
    """Whether an entry has its gradient, and if not, why."""

    meaning: str
    """One sentence that explains the status."""

    # the default is for type checkers, which take GradStatus("ok") for a call of this method
    def __new__(cls, value: str, meaning: str = "") -> GradStatus:
        status = str.__new__(cls, value)
        status._value_, status.meaning = value, meaning
        return status

    OK = "ok", "The gradient is there."
    NOT_CONNECTED = "not_connected", "The value has a history, but no path leads from it to the output."
    DETACHED = "detached", "It was computed from values that are differentiated, and the computation cut the graph."
    NO_GRAD = "no_grad", "It was computed while gradients were switched off (no_grad or inference_mode)."
    FROZEN = "frozen", "Nothing that it was computed from requires a gradient."
    NOT_FLOAT = "not_float", "Its dtype is neither floating point nor complex, so it has no derivative."
    NOT_TENSOR = "not_tensor", "It is not a tensor."
    NOT_EXECUTED = "not_executed", "The code that computes it was not seen to run."
    BACKWARD_NOT_RUN = "backward_not_run", "No backward pass was run."
    OPAQUE = "opaque", "The framework does not let this gradient be captured rightly."


INDEX = "_index"
"""The attribute of a record in which results computed from the record are cached."""

WHAT = Option("what", str, ("value", "grad"), "'grad'")
LINES_OF_THEIR_OWN = (GradStatus.DETACHED, GradStatus.NO_GRAD, GradStatus.NOT_FLOAT)
"""The statuses that come from the line that computes the value itself, unless ``cause`` is another line."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Gradient:
    """The gradient of one of several outputs at an entry, with the same fields as an entry of one output."""

    status: GradStatus
    why: Reason | None
    inputs: tuple[Edge, ...]
    held_grad: Any = field(repr=False, metadata=KEPT)
    cause: Source | None = None
    finiteness: Finiteness | None = None
    leaves_reached: bool = False


@dataclass(frozen=True, kw_only=True)
class Differentiated:
    """The parts of a record that belong to one of several outputs, with the same fields as a record of one output."""

    backward: tuple[Position, ...]
    outputs: tuple[Position, ...]
    notes: tuple[Note, ...] = ()
    path_sums: PathSums | None = None
    used_at: tuple[UsedAt, ...] = ()


class Gradients(Mapping[str, T]):
    """The gradients of an entry that exist, by the key of the output. Reading a missing one raises NoGradient.

    >>> import torch, backprobe as bp
    >>> rec = bp.probe(lambda x, w: {"a": x * w, "b": x * 3}, of=["a", "b"])(2.0, 5.0)
    >>> rec["x"].grads["a"], rec["x"].grads["b"], list(rec["w"].grads), rec["w"].grads.get("b")
    (tensor(5.), tensor(3.), ['a'], None)
    """

    def __init__(self, entry: Entry[T]) -> None:
        self._entry = entry

    def __getitem__(self, key: object) -> T:
        """Raises NoGradient, and UnknownName if no output has this key."""
        gradient = self._entry.by_output.get(str(key))
        if gradient is None:
            raise unknown_output(key, self._entry.by_output, f"rec[{self._entry.name!r}].grads[{key!r}]")
        one = self._entry.of_output(str(key))
        if one.status is not GradStatus.OK:
            raise one.no_gradient(str(key))
        return one.grad

    def __iter__(self) -> Iterator[str]:
        return (key for key, one in self._entry.by_output.items() if one.status is GradStatus.OK)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __contains__(self, key: object) -> bool:
        return any(str(key) == one for one in self)

    def get(self, key: str, default: Any = None) -> Any:
        """The gradient, or the default if there is none of this output."""
        return self[key] if key in self else default  # noqa: SIM401 - it is what dict.get does

    def __repr__(self) -> str:
        return repr({key: self[key] for key in self})


def _first(texts: Sequence[str], most: int = 12) -> str:
    return ", ".join(texts[:most]) + (f" and {len(texts) - most} more" if len(texts) > most else "")


def unknown_output(key: object, keys: Collection[str], asked: str) -> UnknownName:
    """The error about a key that belongs to no output."""
    return UnknownName(
        f"no output has the key {key!r}",
        asked=asked,
        found=f"outputs: {_first([*keys])}" if keys else "a recording of one output, which has no key",
        next=asked.replace(repr(key), repr(next(iter(keys)))) if keys else "bp.probe(f, of=['ce', 'kl']), for several",
    )


class Presenting(Protocol):
    """Describes and draws tensors on behalf of an entry, because an entry knows no framework."""

    def describe(self, tensor: Any) -> str: ...

    def plot(self, tensor: Any, heading: str, asked: str) -> Any: ...


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Entry(Printed, Generic[T]):
    """One named value of a recording and the gradient of the output with respect to it.

    ``name`` is the printed name, and ``aliases`` are the other names of the same value. ``why`` is the reason for a
    missing gradient, as a code; None if there is a gradient. ``reason`` is the same as a sentence. ``shape`` and
    ``dtype`` describe the value as the framework does, without the framework's prefix. ``source`` is the line that
    binds the value; None for values without such a line, such as a module's parameter. ``op`` is the operation, as the
    source spells it.

    ``inputs`` are the recorded values that flow directly into this one; values that are not recorded are skipped over.
    ``reads`` are the recorded values that its expression mentions, whether or not they are differentiated. ``indirect``
    are values that went into this one without being mentioned in its expression.

    ``axes`` names the leading axes of value and gradient if the value is computed several times at once, as inside
    ``jax.lax.scan`` and ``jax.vmap``: ``("step",)`` for the steps of a loop, ``("batch",)`` for the examples. Otherwise
    it is empty. ``cause`` is the line that removed the gradient, if this is not the entry's own line. There may be
    further such lines, which ``bp.explain`` finds. ``finiteness`` is only known with ``nonfinite=True``. ``is_leaf`` is
    True if gradients end at the value, as at a parameter; None if the value has no history, or if the framework has no
    leaves.

    ``leaves_reached`` is only used for values without a gradient. It is True if backward reached all trained leaves
    behind the value on other paths, not counting leaves that were frozen later. It is False if the backend does not
    know. ``replaced`` is True if ``replace=`` replaced the value that the program computed. ``replaced_grad`` is True
    if ``replace_grad=`` changed the gradient; ``grad`` is then the changed gradient, which flows on from here.

    If ``of=`` requested several outputs, or a block took gradients of several, ``by_output`` has the gradient of each
    output by its key. ``grads`` and ``statuses`` read these. ``default_output`` is the key of the output on which a
    block called ``backward()``; all other fields then describe this output. Without a default output, ``status`` is
    ``ok`` if any output has a gradient.
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
    replaced: bool = False
    held_original: Any = field(default=None, repr=False, metadata=KEPT)
    replaced_grad: bool = False
    by_output: Mapping[str, Gradient] = field(default_factory=dict, repr=False)
    default_output: str | None = None
    _presenting: ClassVar[Presenting]
    is_without_partials: ClassVar[bool] = False
    """True for entries that were looked up in a recording without partials."""

    @property
    def is_of_several(self) -> bool:
        """Are there several outputs, none of which is the default?"""
        return bool(self.by_output) and self.default_output is None

    @property
    def reason(self) -> str:
        """A sentence that says why there is no gradient; empty if there is one."""
        return "" if self.why is None else str(self.why)

    @property
    def has_no_value(self) -> bool:
        """Is the value unknown, because its computation did not run or was not observed? This is independent of its
        gradient.
        """
        return self.status is GradStatus.NOT_EXECUTED or self.is_because("used_directly")

    def is_because(self, *codes: str) -> bool:
        """Is the gradient missing for one of these reasons?"""
        return self.why is not None and self.why.code in codes

    @property
    def held(self) -> Any:
        """The value when it got this name; ``Lost`` if it was lost or never kept."""
        return self.held_value.held if isinstance(self.held_value, Alias) else self.held_value

    @property
    def value(self) -> T:
        """The value when it got this name. Raises ``Overwritten`` if it was lost or never kept."""
        return self._there(self.held, "value")

    @property
    def original(self) -> T:
        """The value that the program computed. For a replaced entry, this is the value before the replacement."""
        return self._there(self.held_original, "original") if self.replaced else self.value

    def _there(self, held: Any, part: str) -> T:
        # The held value. Raises ``Overwritten`` if it is lost.
        if isinstance(held, Lost):
            why, what_next = WHY_LOST.get(held.why.code, ("", ""))
            what = "is lost" if what_next == COPY else "was not kept"
            asked, found = f"rec[{self.name!r}].{part}", held.reason
            raise Overwritten(f"the {part} of {self.name!r} {what}", asked=asked, found=found, why=why, next=what_next)
        kept: T = held
        return kept

    @property
    def grad(self) -> T:
        """The gradient of the output with respect to this value, in the value's shape. Raises ``NoGradient`` if there
        is none.

        The gradient must not be written to, because several entries may share its memory. ``NoGradient`` is also raised
        if there are several outputs, and ``backward()`` was called on none of them.
        """
        if self.is_of_several:
            raise self._several("grad")
        if self.status is not GradStatus.OK:
            raise self.no_gradient()
        held: T = self.held_grad
        return held

    def no_gradient(self, key: str | None = None) -> NoGradient:
        """The error about a missing gradient. If there are several outputs, it is about the output with this key."""
        asked, of = f"rec[{self.name!r}]", "" if key is None else f" of {key!r}"
        read, otherwise = (".grad", ".grad_or_none") if key is None else (f".grads[{key!r}]", f".grads.get({key!r})")
        recording = "rec" if key is None else f"rec.of({key!r})"
        return NoGradient(
            f"{self.name!r} has no gradient{of}: {self.status}",
            asked=asked + read,
            found="\n".join([self.reason, *self._line_of_cause()]),
            why="" if self.is_because(*LIMITED) else self.status.meaning,
            next=f"bp.explain({recording}, {self.name!r}), or {asked}{otherwise} for None",
        )

    def _several(self, part: str) -> NoGradient:
        # The error if a single gradient or contribution is requested and there are several outputs.
        key, *_ = self.by_output
        name, of_sum = f"[{self.name!r}]", f"rec.total()[{self.name!r}]"
        each = f"rec{name}.grads[{key!r}]" if part.startswith("grad") else f"rec.of({key!r}){name}.{part}"
        return NoGradient(
            f"{self.name!r} has a gradient of each of several outputs",
            asked=f"rec{name}.{part}",
            found=_first([f"{key}: {one.status}" for key, one in self.by_output.items()]),
            why="each of them has a backward pass of its own",
            next=f"{each}, or {of_sum}.{'grad' if part.startswith('grad') else part} for that of their sum",
        )

    @property
    def grads(self) -> Mapping[str, T]:
        """The gradients that exist, by the key of the output, if there are several outputs; otherwise empty."""
        return Gradients(self)

    @property
    def statuses(self) -> Mapping[str, GradStatus]:
        """The status of each gradient by the key of the output, if there are several outputs; otherwise empty."""
        return {key: one.status for key, one in self.by_output.items()}

    def of_output(self, key: str) -> Entry[T]:
        """The entry as it is in the recording of one output alone."""
        one, finiteness = self.by_output[key], self.finiteness
        if one.finiteness is not None and finiteness is not None:
            finiteness = replace(one.finiteness, value=finiteness.value)
        return replace(self, **{**vars(one), "finiteness": finiteness}, by_output={}, default_output=None)

    def _line_of_cause(self) -> list[str]:
        source = self.cause or (self.source if self.status in LINES_OF_THEIR_OWN else None)
        return [] if source is None else [f"{path(source.file, source.line)}: {source.text.strip()}"]

    def __repr__(self) -> str:
        kind = " ".join(part for part in (sizes(self.shape or ()), self.dtype or "") if part)
        line = "" if self.source is None else repr(self.source).removeprefix("<Source ").removesuffix(">")
        return f"<Entry {self.name}: {', '.join(part for part in (str(self.status), kind, line) if part)}>"

    def __str__(self) -> str:
        return "\n".join([self.name, *labelled(self._parts(), 10)])

    def _repr_html_(self) -> str:
        return shown(facts(self.name, self._parts()))

    def _parts(self) -> list[tuple[str, str]]:
        # The labelled rows of the entry's description.
        return [
            ("also", ", ".join(self.aliases)),
            ("value", self._in_words(self.held)),
            ("original", self._in_words(self.held_original) if self.replaced else ""),
            ("dtype", f"{self.dtype} on {self.device}" if self.dtype and self.device else self.dtype or ""),
            ("gradient", self._gradient_in_words()),
            ("line", "" if self.source is None else str(self.source)),
            ("cause", "" if self.cause is None else str(self.cause)),
            ("inputs", ", ".join([edge.name for edge in self.inputs])),
        ]

    def _gradient_in_words(self) -> str:
        if self.by_output:
            return "\n".join(f"{key}: {self.of_output(key)._gradient_in_words()}" for key in self.by_output)
        missing = ": ".join(filter(None, (str(self.status), self.reason)))
        return self._in_words(self.held_grad) if self.status is GradStatus.OK else missing

    def _in_words(self, held: Any) -> str:
        if isinstance(held, Lost):
            return f"lost: {held.reason}"
        return plain_text(held) if self.status is GradStatus.NOT_TENSOR else self._presenting.describe(held)

    @renamed("entry.plot({})", {"kind": "entry.plot({})"})
    def plot(self, what: str = "value") -> Any:
        """The value, or with ``what="grad"`` the gradient, as a ``matplotlib`` figure.

        A tensor with one axis is drawn as a line, and a tensor with several axes as a heat map, in which the axes are
        divided between rows and columns. A tensor of more than 65,536 elements is drawn as a histogram. Complex numbers
        are shown by their magnitudes. NaN and Inf are drawn in special colours and counted.
        ``rec["u"].plot("grad").savefig("u.png")`` writes a file.

        Raises NoGradient, Overwritten, NotInstalled, and BadOption for another ``what`` or if there are no numbers to
        draw.
        """
        WHAT.check(what)
        tensor = self.value if what == "value" else self.grad
        heading = f"{'gradient of ' * (what == 'grad')}{self.name}"
        return self._presenting.plot(tensor, heading, f"rec[{self.name!r}].plot({what!r})")

    @property
    def grad_or_none(self) -> T | None:
        """The gradient, or None if there is none. Raises ``NoGradient`` if there are several outputs without a
        default.
        """
        if self.is_of_several:
            raise self._several("grad_or_none")
        return self.held_grad if self.status is GradStatus.OK else None

    @property
    def partials(self) -> Mapping[str, T]:
        """Local partials by input name. Raises ``BadOption`` if the recording has none, because none were requested."""
        self._refuse_without_partials("partials")
        return {edge.name: edge.partial for edge in self.inputs if edge.partial is not None}

    def _refuse_without_partials(self, part: str) -> None:
        if self.is_without_partials:
            raise NotRecorded(
                f"no {part} were recorded",
                asked=f"rec[{self.name!r}].{part}",
                found="a recording without partials",
                next="bp.probe(f, partials=True)",
            )

    @property
    def contributions(self) -> Mapping[str, T]:
        """The part of each input's gradient that flows through this entry, by input name.

        Raises ``BadOption`` if no partials were requested, and ``NoGradient`` if there are several outputs without a
        default: ``rec.of(key)`` has the contributions of one.
        """
        self._refuse_without_partials("contributions")
        if self.is_of_several:
            raise self._several("contributions")
        return {edge.name: edge.contribution for edge in self.inputs if edge.contribution is not None}


@dataclass(frozen=True, kw_only=True)
class Record:
    """A recording as plain data. Every backend produces one, and everything else reads it.

    ``names`` maps each full name (all counts written) to the position of its entry, and ``printed`` maps it to its
    printed form. ``backward`` has the positions of the entries in the order in which the backward pass reached them,
    and ``outputs`` the positions of the entries from which it started. ``path_sums`` is only there if partials were
    requested.
    ``unseen`` are names in the program that were not selected, for suggestions. ``notes`` say what could not be
    observed.

    ``scales`` are the factors by which outputs were multiplied before they were differentiated, as by ``GradScaler``,
    each factor once; None stands for an unknown factor. ``buffers`` are buffers of a model that contained NaN or Inf
    before it ran, by path, and ``updates`` are writes of NaN or Inf to parameters in a block. Both are only looked for
    with ``nonfinite=True``. ``framework`` is the framework of the program, and ``backend`` that of the arrays, which
    may differ after loading. ``none_given`` are gradients that the program's own tapes returned as None, or as zeros
    with a known cause, and ``none_reads`` are gradients of its own tensors that the program read and found to be None.

    ``training`` describes the parameters that a block was meant to train, if known. ``used_at`` lists statements that
    use entries without a gradient, if no recorded value shows their use. ``passes`` are the backward passes that the
    program ran itself. If there are several outputs, ``by_output`` has the fields that belong to one of them, by its
    key. ``default_output`` is the key of the output on which a block called ``backward()``, if any: all other fields
    then describe this output, except ``notes``, which are those of all outputs.
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
    training: Training | None = None
    used_at: tuple[UsedAt, ...] = ()
    by_output: Mapping[str, Differentiated] = field(default_factory=dict)
    default_output: str | None = None
    passes: tuple[Pass, ...] = ()
    none_reads: tuple[NoneRead, ...] = ()

    def __getstate__(self) -> dict[str, Any]:
        """The state for copying and pickling: the fields, without the cache that ``record.graph`` adds."""
        return {name: value for name, value in vars(self).items() if name != INDEX}

    @property
    def is_of_several(self) -> bool:
        """Are there several outputs, none of which is the default?"""
        return bool(self.by_output) and self.default_output is None

    def with_entries(self, changed: Mapping[Position, Entry]) -> Record:
        """Return the record with these entries at their positions, and the other entries as they are."""
        if not changed:
            return self
        return replace(self, entries=tuple([changed.get(at, entry) for at, entry in enumerate(self.entries)]))
