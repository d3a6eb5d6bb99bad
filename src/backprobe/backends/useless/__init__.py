"""Notes on gradients that exist but are useless: facts about a few iterations of a training, in neutral words.

docs/useless.md explains what each fact means, how it is found and how often it was wrong.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from backprobe.backends.tensors import Tensors
from backprobe.findings.phrasing import listed
from backprobe.record.reasons import Note
from backprobe.record.source import Source
from backprobe.source.user_code import innermost

FLAT, TIMES_ZERO, CANCELS = "zero_flat", "zero_times_zero", "cancels"
"""Codes for parameters: the gradient is exactly 0 behind a flat operation, it is multiplied by a 0 that is not trained,
or its contributions cancel.
"""

NOT_SENT, HOOKED = "zero_not_sent", "zero_hooked"
"""Codes for parameters: an operation passes on exactly 0 whatever gradient it receives, or a hook of the program
returns 0.
"""

STALE, UNDONE, UNUSED_UPDATE = "stale_copy", "step_undone", "update_unused"
"""Codes for parameters that change, or should: a copy with old numbers is used, each step is undone before anything has
read what it made, or new numbers are computed and used by nothing.
"""

OUTER, TWICE, UNNORMALISED = "outer_product", "distribution_twice", "not_log_probabilities"
"""Codes for an operation: it makes more elements than intended, it applies softmax to a distribution, or it picks from
numbers that are not log-probabilities.
"""

DROPPED = "result_dropped"
"""Code for an operation: nothing uses its result, and no variable holds it."""

STILL = "step_without_effect"
"""Code for an optimizer: its steps change next to none of the numbers that have a gradient."""

UNFED = "step_without_gradient"
"""Code for an optimizer: each gradient is None or 0 whenever it steps."""

WITHOUT_RATE = "step_without_rate"
"""Code for an optimizer: each of its steps has the learning rate 0."""

SCALED = "step_scaled"
"""Code for an optimizer: its gradients still carry the factor by which the loss was scaled."""

USELESS = (
    *(OUTER, TWICE, UNNORMALISED, DROPPED, SCALED, STALE),
    *(FLAT, TIMES_ZERO, NOT_SENT, HOOKED, CANCELS),
    *(UNDONE, UNUSED_UPDATE, STILL, WITHOUT_RATE, UNFED),
)
"""All codes. Errors in the loss itself come first, because other errors may follow from them."""

FAR_BELOW = 1e-4
"""A gradient is examined further if all its numbers are below this share of the largest number of all gradients."""
COARSE, COARSE_ROUNDING, COARSE_ELEMENTS = 1e-4, 2, 8
"""Limits for coarse dtypes, such as those of 16 bits, whose rounding unit exceeds the first number. Contributions
cancel if their sum is at most the second number of units times the sum of their norms. The array must have at least the
third number of elements, because two numbers with three digits may be equal by chance.
"""


COARSE_FAR_BELOW = 16
"""``FAR_BELOW`` for a coarse dtype, in units of rounding. It is larger, because the remainder of cancelling numbers may
be divided by a small number.
"""


def far_below(unit: float) -> float:
    """Return ``FAR_BELOW`` for a dtype with this unit of rounding.

    >>> far_below(1.2e-7), far_below(0.0078125)
    (0.0001, 0.125)
    """
    return COARSE_FAR_BELOW * unit if unit >= COARSE else FAR_BELOW


@dataclass(frozen=True)
class End:
    """The place where the gradients of a leaf vanish.

    It has the code of the reason, the operation, the operation's place in the program's order, and its line in the
    backend's own form. ``is_constant`` says that the operation gives the same result for any input. ``is_zero`` says
    that the gradient is exactly 0, not just rounding.
    """

    code: str
    operation: str
    order: int
    place: Any = None
    is_constant: bool = False
    is_zero: bool = False


@dataclass(frozen=True)
class Observed:
    """The useless gradients found in one gradient of a function: notes on operations, and by name of a parameter the
    place where its gradient vanishes.

    ``is_open`` says that the numbers of this gradient were not sufficient, and that the next gradient may show more.
    """

    notes: Sequence[Note] = ()
    endings: Mapping[str, End] = field(default_factory=dict)
    is_open: bool = False

    def of_zero(self, names: Collection[str]) -> Observed:
        """Return a copy in which the gradients with these names, and no others, are marked as exactly 0."""
        return replace(self, endings={name: replace(end, is_zero=name in names) for name, end in self.endings.items()})


@dataclass(frozen=True)
class RepeatedCall:
    """One call of a function or model, which is repeated to find useless gradients of its output."""

    target: Any
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    wrt: frozenset[str] | None
    """The names of the arguments to differentiate, if only some were requested."""

    output: Callable[[Any, Tensors], tuple[Any, Any]]
    """(result of the call, the framework's tensors) -> the differentiated output, and its cotangent."""

    def arguments(self) -> dict[str, Any]:
        """Return the arguments by the names of the parameters, positional arguments first."""
        inner = innermost(self.target)
        names = () if inner is None else inner.__code__.co_varnames[: inner.__code__.co_argcount]
        known = names[1:] if names[:1] == ("self",) else names
        given = [*known, *(f"argument {at}" for at in range(len(known), len(self.args)))]
        return {**dict(zip(given, self.args, strict=False)), **self.kwargs}

    def make(self, arguments: Mapping[str, Any]) -> Any:
        """Make the call with these arguments instead of the original ones. Returns its result."""
        values = list(arguments.values())
        named = {name: arguments[name] for name in self.kwargs}
        return self.target(*values[: len(self.args)], **named)


def found_again(before: Mapping[str, End], now: Mapping[str, End]) -> list[Note]:
    """Return the notes on parameters whose gradients vanish for the same reason in two gradients of one function.

    >>> [str(note) for note in found_again({"w": End(FLAT, "clip", 1)}, {"w": End(FLAT, "clip", 1)})]
    ['the gradients of w are exactly 0: clip is flat there']
    """
    same = [name for name, one in now.items() if name in before and before[name].code == one.code]
    ends = [(name, replace(now[name], is_zero=before[name].is_zero and now[name].is_zero)) for name in same]
    return by_operation(ends, iterations=2)


def once(now: Mapping[str, End]) -> list[Note]:
    """Return the notes on parameters whose gradients vanish in the only gradient that was examined, other than by
    cancelling.

    >>> [note.fields["iterations"] for note in once({"w": End(FLAT, "clip", 1)})]
    ['1']
    """
    return by_operation([(name, one) for name, one in now.items() if one.code != CANCELS], iterations=1)


def of_ends(ends: Mapping[str, End]) -> list[Note]:
    """Return the notes on parameters whose gradients vanish in one call.

    >>> [note.fields["iterations"] for note in of_ends({"w": End(CANCELS, "sub", 1)})]
    ['call']
    """
    return [*map(in_one_call, by_operation(ends.items(), iterations=1))]


def by_operation(ends: Iterable[tuple[str, End]], *, iterations: int) -> list[Note]:
    """Return a note for each operation at which the gradients of some parameters vanish. The places of these ends are
    lines.
    """
    places: dict[tuple[str, str, Source | None, bool], list[tuple[str, bool]]] = {}
    for name, one in ends:
        places.setdefault((one.code, one.operation, one.place, one.is_constant), []).append((name, one.is_zero))
    notes = []
    for (code, operation, at, is_constant), several in places.items():
        names, zeros = zip(*several, strict=True)
        notes.append(of_parameters(code, names, operation, at, iterations, is_constant, is_zero=all(zeros)))
    return notes


class UselessGradients(ABC):
    """Observes the iterations of one program. The tape of each block that records an iteration has it as
    ``useless``.
    """

    @property
    def is_undecided(self) -> bool:
        """May one more iteration decide what the iterations so far have left open?"""
        return False

    @abstractmethod
    def listen(self) -> None:
        """Begin to observe."""

    @abstractmethod
    def stop(self) -> None:
        """Stop observing, and release everything that is held."""


def of_parameters(
    code: str,
    names: Sequence[str],
    operation: str,
    at: Source | None,
    iterations: int,
    is_constant: bool = False,
    *,
    is_zero: bool = False,
) -> Note:
    """Return the note on parameters whose gradients vanish at one operation, in each of ``iterations`` iterations.

    ``is_constant`` says that the operation gives the same result for any input, ``is_zero`` that all gradients are
    exactly 0.

    >>> note = of_parameters(FLAT, ["scale"], "clamp", None, 2)
    >>> note.code, note.fields["names"], note.fields["operation"]
    ('zero_flat', 'scale', 'clamp')
    """
    several = {"count": str(len(names)), "first": names[0], "iterations": str(iterations)}
    several |= {"constant": "yes"} if is_constant else {}
    several |= {"zero": "yes"} if is_zero else {}
    return Note(code, {"names": listed(names, 12), "operation": operation, **several, **placed(at)})


def outer_product(shapes: Sequence[Sequence[int]], result: Sequence[int], at: Source | None) -> Note:
    """Return the note on an operation whose result is larger than each operand, because the operands were broadcast.

    >>> str(outer_product([(16,), (16, 1)], (16, 16), None))
    'operands of the shapes [16] and [16, 1] were broadcast to [16, 16]'
    """
    spelled = [str([*shape]) for shape in shapes]
    return Note(OUTER, {"shapes": " and ".join(spelled), "result": str([*result]), **placed(at)})


def of_operation(code: str, at: Source | None, **fields: str) -> Note:
    """Return the note on an operation that receives values for which it is not meant."""
    return Note(code, {**fields, **placed(at)})


def step_without_effect(optimizer: str, rate: float, dtype: str, share: float, at: Source | None) -> Note:
    """Return the note on an optimizer whose steps leave nearly all numbers unchanged.

    >>> str(step_without_effect("SGD", 1e-5, "bfloat16", 0.0, None))
    'steps of SGD with lr 1e-05 change 0 % of the bfloat16 numbers that have a gradient'
    """
    fields = {"steps": f"steps of {optimizer} with lr {rate:g}", "optimizer": optimizer, "rate": f"{rate:g}"}
    return Note(STILL, {**fields, "dtype": dtype, "share": f"{100 * share:.2g}", **placed(at)})


def step_without_gradient(optimizer: str, count: int, at: Source | None) -> Note:
    """Return the note on an optimizer that never finds a gradient when it steps.

    >>> str(step_without_gradient("SGD", 2, None))
    'SGD has stepped 2 times, and each time the gradients of all its parameters were None or 0'
    """
    return Note(UNFED, {"optimizer": optimizer, "steps": str(count), **placed(at)})


def step_without_rate(optimizer: str, count: int, at: Source | None) -> Note:
    """Return the note on an optimizer all of whose steps had the learning rate 0.

    >>> str(step_without_rate("SGD", 2, None))
    'SGD has stepped 2 times, each time with lr 0'
    """
    return Note(WITHOUT_RATE, {"optimizer": optimizer, "steps": str(count), **placed(at)})


def of_changes(code: str, names: Sequence[str], at: Source | None, **fields: str) -> Note:
    """Return the note on parameters whose changes have no effect.

    >>> str(of_changes(UNDONE, ["w"], None))
    'each step of w is undone'
    """
    return Note(code, {"names": listed(names, 12), "first": names[0], "count": str(len(names)), **fields, **placed(at)})


def scaled_step(optimizer: str, scale: float, at: Source | None) -> Note:
    """Return the note on an optimizer that steps with gradients of a scaled loss.

    >>> str(scaled_step("SGD", 65536.0, None))
    'SGD steps with gradients that are 65536 times those of the loss: nothing has unscaled them'
    """
    return Note(SCALED, {"optimizer": optimizer, "scale": f"{scale:.6g}", **placed(at)})


def update_without_effect(names: Sequence[str], dtype: str, share: float, at: Source | None) -> Note:
    """Return the note on additions that leave nearly all numbers of some arrays unchanged, in a program without an
    optimizer object.

    >>> str(update_without_effect(["p.w"], "bfloat16", 0.0, None))
    'updates of p.w change 0 % of the bfloat16 numbers that have a gradient'
    """
    listing = listed(names, 12)
    fields = {"steps": f"updates of {listing}", "names": listing, "dtype": dtype, "share": f"{100 * share:.2g}"}
    return Note(STILL, {**fields, **placed(at)})


ONE_CALL = "call"
"""Used instead of the number of iterations, for notes on a single call."""


def in_one_call(note: Note) -> Note:
    """Return the note as one on a single call, however often the call was repeated."""
    return Note(note.code, {**note.fields, "iterations": ONE_CALL}) if "iterations" in note.fields else note


def is_lasting(note: Note) -> bool:
    """Does the note hold for more than the examined iteration? A gradient may be 0 for a single batch.

    For a call it holds if the operation gives the same result for any input. In a training, the next iteration may have
    other shapes, so a second iteration must confirm it.
    """
    if note.code not in (FLAT, TIMES_ZERO, NOT_SENT, HOOKED):
        return True
    iterations = note.fields["iterations"]
    return "constant" in note.fields if iterations == ONE_CALL else iterations != "1"


def line_of(note: Note) -> Source | None:
    """Return the line of a note; None if it has none."""
    file, _, line = note.fields.get("at", "").rpartition(":")
    return Source(file, int(line), note.fields.get("text", "")) if file else None


@dataclass(frozen=True, repr=False)
class InPart(Source):
    """A line that runs much other code, such as Keras's ``fit``, with the part that ran the operation.

    The part is a layer's path and class, or a loss's name without a class.
    """

    part: tuple[str, str] = ("", "")


def placed(at: Source | None) -> Mapping[str, str]:
    """Return the fields of a note that contain its line.

    >>> placed(InPart("train.py", 5, "model.fit(x, y)", part=("gate", "Dense")))
    {'at': 'train.py:5', 'text': 'model.fit(x, y)', 'part': 'gate', 'class': 'Dense'}
    """
    if at is None:
        return {}
    part = dict(zip(("part", "class"), at.part, strict=True)) if isinstance(at, InPart) else {}
    return {"at": f"{at.file}:{at.line}", "text": at.text, **part}
