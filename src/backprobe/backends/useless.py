"""Notes about gradients that are there, and useless: facts of a few iterations of a training, in no framework's words.

What each fact means, how it is found and how often it was wrong is written in docs/useless.md.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from backprobe.findings.phrasing import listed
from backprobe.record.reasons import Note
from backprobe.record.source import Source

FLAT, TIMES_ZERO, CANCELS = "zero_flat", "zero_times_zero", "cancels"
"""Of parameters: exactly 0 behind a flat operation, or times a 0 that is not trained; contributions that cancel."""

OUTER, TWICE, UNNORMALISED = "outer_product", "distribution_twice", "not_log_probabilities"
"""Of an operation: more elements than wanted, softmax of a distribution, picks of what are no log-probabilities."""

DROPPED = "result_dropped"
"""Of an operation: its result is used by nothing, not even given a name."""

STILL = "step_without_effect"
"""Of an optimizer: its steps change next to none of the numbers that have a gradient."""

USELESS = (OUTER, TWICE, UNNORMALISED, DROPPED, FLAT, TIMES_ZERO, CANCELS, STILL)
"""All of them; what the loss itself is wrong by comes first, since others may follow from it."""

FAR_BELOW = 1e-4
"""Of the largest number of all gradients: one that is all below that is looked at further."""


@dataclass(frozen=True)
class Ending:
    """Where the gradient of a parameter comes to nothing: the code of why, and the operation."""

    code: str
    operation: str
    at: Source | None


@dataclass(frozen=True)
class Observed:
    """What was found in one gradient of a function: of its operations, and of each parameter by its name.

    ``is_open`` says that the next gradient may show what the numbers of this one could not tell.
    """

    notes: Sequence[Note] = ()
    endings: Mapping[str, Ending] = field(default_factory=dict)
    is_open: bool = False


def found_again(before: Mapping[str, Ending], now: Mapping[str, Ending]) -> list[Note]:
    """The notes on parameters whose gradients come to nothing for the same reason in two gradients of one function.

    >>> [str(note) for note in found_again({"w": Ending(FLAT, "clip", None)}, {"w": Ending(FLAT, "clip", None)})]
    ['the gradients of w are exactly 0 in each iteration: clip is flat there']
    """
    places: dict[Ending, list[str]] = {}
    for name, one in now.items():
        if name in before and before[name].code == one.code:
            places.setdefault(one, []).append(name)
    return [of_parameters(one.code, names, one.operation, one.at, 2) for one, names in places.items()]


class UselessGradients(ABC):
    """Observes the iterations of one program; the tape of each block that records one has it as ``useless``."""

    @property
    def is_undecided(self) -> bool:
        """May one more iteration show what the ones so far do not, since they have a part of it?"""
        return False

    @abstractmethod
    def listen(self) -> None:
        """Observe from now on."""

    @abstractmethod
    def stop(self) -> None:
        """Observe nothing any longer, and keep nothing."""


def of_parameters(code: str, names: Sequence[str], operation: str, at: Source | None, iterations: int) -> Note:
    """The note on parameters whose gradients come to nothing at one operation, in each of so many iterations.

    >>> note = of_parameters(FLAT, ["scale"], "clamp", None, 2)
    >>> note.code, note.fields["names"], note.fields["operation"]
    ('zero_flat', 'scale', 'clamp')
    """
    several = {"count": str(len(names)), "first": names[0], "iterations": str(iterations)}
    return Note(code, {"names": listed(names, 12), "operation": operation, **several, **placed(at)})


def outer_product(shapes: Sequence[Sequence[int]], result: Sequence[int], at: Source | None) -> Note:
    """The note on an operation whose operands were stretched to a result that is larger than each of them.

    >>> str(outer_product([(16,), (16, 1)], (16, 16), None))
    'operands of the shapes [16] and [16, 1] were broadcast to [16, 16]'
    """
    spelled = [str([*shape]) for shape in shapes]
    return Note(OUTER, {"shapes": " and ".join(spelled), "result": str([*result]), **placed(at)})


def of_operation(code: str, at: Source | None, **fields: str) -> Note:
    """The note on an operation that is given something else than it is meant for."""
    return Note(code, {**fields, **placed(at)})


def step_without_effect(optimizer: str, rate: float, dtype: str, share: float, at: Source | None) -> Note:
    """The note on an optimizer whose steps leave nearly all numbers as they were.

    >>> str(step_without_effect("SGD", 1e-5, "bfloat16", 0.0, None))
    'steps of SGD with lr 1e-05 change 0 % of the bfloat16 numbers that have a gradient'
    """
    fields = {"optimizer": optimizer, "rate": f"{rate:g}", "dtype": dtype, "share": f"{100 * share:.2g}"}
    return Note(STILL, {**fields, **placed(at)})


def is_lasting(note: Note) -> bool:
    """Does it hold for more than the one iteration that was looked at? A gradient may be 0 for a single batch."""
    return note.code not in (FLAT, TIMES_ZERO) or note.fields["iterations"] != "1"


def line_of(note: Note) -> Source | None:
    """The line of a note."""
    file, _, line = note.fields.get("at", "").rpartition(":")
    return Source(file, int(line), note.fields.get("text", "")) if file else None


def placed(at: Source | None) -> Mapping[str, str]:
    """The line of a note as fields of it."""
    return {} if at is None else {"at": f"{at.file}:{at.line}", "text": at.text}
