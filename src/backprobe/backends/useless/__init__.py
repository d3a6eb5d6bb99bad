"""Notes on gradients that exist but are useless: facts about a few iterations of a training, in neutral words.

docs/useless.md explains what each fact means, how it is found and how often it was wrong.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from backprobe.backends.tensors import Tensors
from backprobe.findings.phrasing import listed
from backprobe.record.reasons import Note
from backprobe.record.source import Source
from backprobe.source.user_code import innermost

FLAT, TIMES_ZERO, CANCELS = "zero_flat", "zero_times_zero", "cancels"
"""On parameters: exactly 0 behind a flat operation, or times a 0 that is not trained; contributions that cancel."""

OUTER, TWICE, UNNORMALISED = "outer_product", "distribution_twice", "not_log_probabilities"
"""On an operation: more elements than intended, softmax of a distribution, picks of numbers that are no
log-probabilities.
"""

DROPPED = "result_dropped"
"""On an operation: nothing uses its result, which does not even get a name."""

STILL = "step_without_effect"
"""On an optimizer: its steps change next to none of the numbers that have a gradient."""

USELESS = (OUTER, TWICE, UNNORMALISED, DROPPED, FLAT, TIMES_ZERO, CANCELS, STILL)
"""All of them. Errors in the loss itself come first, because others may follow from them."""

FAR_BELOW = 1e-4
"""A share of the largest number of all gradients: a gradient that is entirely below it is examined further."""
COARSE, COARSE_ROUNDING, COARSE_ELEMENTS = 1e-4, 2, 8
"""In a dtype whose rounding unit exceeds the first number, such as those of 16 bits, contributions cancel if their sum
is at most so many units of the sum of their norms, and the array has at least so many elements: two numbers with three
digits may be equal by chance.
"""


COARSE_FAR_BELOW = 16
"""In such a dtype, so many units are far below: the remainder of cancelling numbers may be divided by a small one."""


def far_below(unit: float) -> float:
    """``FAR_BELOW`` in a dtype with this unit of rounding.

    >>> far_below(1.2e-7), far_below(0.0078125)
    (0.0001, 0.125)
    """
    return COARSE_FAR_BELOW * unit if unit >= COARSE else FAR_BELOW


@dataclass(frozen=True)
class End:
    """Where the gradients of a leaf vanish: the code of the reason; the operation, its place in the program's order,
    and its line as the backend has it; whether the operation gives the same result for any input; and whether the
    gradient is exactly 0, or may be rounding.
    """

    code: str
    operation: str
    order: int
    place: Any = None
    is_constant: bool = False
    is_zero: bool = False


@dataclass(frozen=True)
class Observed:
    """What was found in one gradient of a function: notes on its operations, and the end of each parameter by name.

    ``is_open`` says that the next gradient may show what the numbers of this one could not.
    """

    notes: Sequence[Note] = ()
    endings: Mapping[str, End] = field(default_factory=dict)
    is_open: bool = False

    def of_zero(self, names: Collection[str]) -> Observed:
        """The same, with exactly 0 as the gradients of these names."""
        return replace(self, endings={name: replace(end, is_zero=name in names) for name, end in self.endings.items()})


@dataclass(frozen=True)
class RepeatedCall:
    """One call of a function or model, which is repeated to find useless gradients of its output."""

    target: Any
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    wrt: frozenset[str] | None
    """The differentiated arguments, if only some were requested."""

    output: Callable[[Any, Tensors], tuple[Any, Any]]
    """(what it returned, the framework's tensors) -> the differentiated output, and its cotangent"""

    def arguments(self) -> dict[str, Any]:
        """The arguments by the names of the parameters, positional ones first."""
        inner = innermost(self.target)
        names = () if inner is None else inner.__code__.co_varnames[: inner.__code__.co_argcount]
        known = names[1:] if names[:1] == ("self",) else names
        given = [*known, *(f"argument {at}" for at in range(len(known), len(self.args)))]
        return {**dict(zip(given, self.args, strict=False)), **self.kwargs}

    def make(self, arguments: Mapping[str, Any]) -> Any:
        """Make the call with these arguments instead of its own. Returns its result."""
        values = list(arguments.values())
        named = {name: arguments[name] for name in self.kwargs}
        return self.target(*values[: len(self.args)], **named)


def found_again(before: Mapping[str, End], now: Mapping[str, End]) -> list[Note]:
    """The notes on parameters whose gradients come to nothing for the same reason in two gradients of one function.

    >>> [str(note) for note in found_again({"w": End(FLAT, "clip", 1)}, {"w": End(FLAT, "clip", 1)})]
    ['the gradients of w are exactly 0: clip is flat there']
    """
    both = {name: (before[name], one) for name, one in now.items() if name in before and before[name].code == one.code}
    return _by_operation(
        {name: replace(one, is_zero=was.is_zero and one.is_zero) for name, (was, one) in both.items()}, 2
    )


def once(now: Mapping[str, End]) -> list[Note]:
    """The notes on parameters whose gradients come to nothing in the one gradient that was looked at.

    >>> [note.fields["iterations"] for note in once({"w": End(FLAT, "clip", 1)})]
    ['1']
    """
    return _by_operation({name: one for name, one in now.items() if one.code != CANCELS}, 1)


def of_ends(ends: Mapping[str, End]) -> list[Note]:
    """The notes on parameters whose gradients come to nothing in one call.

    >>> [note.fields["iterations"] for note in of_ends({"w": End(CANCELS, "sub", 1)})]
    ['call']
    """
    return [in_one_call(note) for note in _by_operation(ends, 1)]


def _by_operation(ends: Mapping[str, End], iterations: int) -> list[Note]:
    places: dict[tuple[str, str, Source | None, bool], list[str]] = {}
    for name, one in ends.items():
        places.setdefault((one.code, one.operation, one.place, one.is_constant), []).append(name)
    return [
        of_parameters(
            code, names, operation, at, iterations, is_constant, is_zero=all(ends[name].is_zero for name in names)
        )
        for (code, operation, at, is_constant), names in places.items()
    ]


class UselessGradients(ABC):
    """Observes the iterations of one program; the tape of each block that records one has it as ``useless``."""

    @property
    def is_undecided(self) -> bool:
        """May one more iteration decide what the iterations so far have left open?"""
        return False

    @abstractmethod
    def listen(self) -> None:
        """Begin to observe."""

    @abstractmethod
    def stop(self) -> None:
        """Stop observing, and release all that is held."""


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
    """The note on parameters whose gradients come to nothing at one operation, in each of so many iterations; the
    operation may give the same whatever it is given, and exactly 0 may be left of all of them.

    >>> note = of_parameters(FLAT, ["scale"], "clamp", None, 2)
    >>> note.code, note.fields["names"], note.fields["operation"]
    ('zero_flat', 'scale', 'clamp')
    """
    several = {"count": str(len(names)), "first": names[0], "iterations": str(iterations)}
    several |= {"constant": "yes"} if is_constant else {}
    several |= {"zero": "yes"} if is_zero else {}
    return Note(code, {"names": listed(names, 12), "operation": operation, **several, **placed(at)})


def outer_product(shapes: Sequence[Sequence[int]], result: Sequence[int], at: Source | None) -> Note:
    """The note on an operation whose operands were stretched to a result that is larger than each of them.

    >>> str(outer_product([(16,), (16, 1)], (16, 16), None))
    'operands of the shapes [16] and [16, 1] were broadcast to [16, 16]'
    """
    spelled = [str([*shape]) for shape in shapes]
    return Note(OUTER, {"shapes": " and ".join(spelled), "result": str([*result]), **placed(at)})


def of_operation(code: str, at: Source | None, **fields: str) -> Note:
    """The note on an operation that receives something for which it is not meant."""
    return Note(code, {**fields, **placed(at)})


def step_without_effect(optimizer: str, rate: float, dtype: str, share: float, at: Source | None) -> Note:
    """The note on an optimizer whose steps leave nearly all numbers as they were.

    >>> str(step_without_effect("SGD", 1e-5, "bfloat16", 0.0, None))
    'steps of SGD with lr 1e-05 change 0 % of the bfloat16 numbers that have a gradient'
    """
    fields = {"steps": f"steps of {optimizer} with lr {rate:g}", "optimizer": optimizer, "rate": f"{rate:g}"}
    return Note(STILL, {**fields, "dtype": dtype, "share": f"{100 * share:.2g}", **placed(at)})


def update_without_effect(names: Sequence[str], dtype: str, share: float, at: Source | None) -> Note:
    """The note on additions that leave nearly all numbers of some arrays as they were, where no optimizer is known.

    >>> str(update_without_effect(["p.w"], "bfloat16", 0.0, None))
    'updates of p.w change 0 % of the bfloat16 numbers that have a gradient'
    """
    listing = listed(names, 12)
    fields = {"steps": f"updates of {listing}", "names": listing, "dtype": dtype, "share": f"{100 * share:.2g}"}
    return Note(STILL, {**fields, **placed(at)})


ONE_CALL = "call"
"""Used in place of the number of iterations: found with the arguments of one call alone."""


def in_one_call(note: Note) -> Note:
    """The note, as found in one call, however often that call was repeated."""
    return Note(note.code, {**note.fields, "iterations": ONE_CALL}) if "iterations" in note.fields else note


def is_lasting(note: Note) -> bool:
    """Does it hold for more than the one iteration that was examined? A gradient may be 0 for a single batch.

    For a call it does if the operation gives the same result for any input; in a training the next iteration may have
    another shape.
    """
    if note.code not in (FLAT, TIMES_ZERO):
        return True
    iterations = note.fields["iterations"]
    return "constant" in note.fields if iterations == ONE_CALL else iterations != "1"


def line_of(note: Note) -> Source | None:
    """The line of a note."""
    file, _, line = note.fields.get("at", "").rpartition(":")
    return Source(file, int(line), note.fields.get("text", "")) if file else None


@dataclass(frozen=True, repr=False)
class InPart(Source):
    """A line that runs much else, as Keras's ``fit`` does, with the part in which an operation ran: a layer's path and
    class, or a loss's name without a class.
    """

    part: tuple[str, str] = ("", "")


def placed(at: Source | None) -> Mapping[str, str]:
    """The line of a note as fields of it.

    >>> placed(InPart("train.py", 5, "model.fit(x, y)", part=("gate", "Dense")))
    {'at': 'train.py:5', 'text': 'model.fit(x, y)', 'part': 'gate', 'class': 'Dense'}
    """
    if at is None:
        return {}
    part = dict(zip(("part", "class"), at.part, strict=True)) if isinstance(at, InPart) else {}
    return {"at": f"{at.file}:{at.line}", "text": at.text, **part}
