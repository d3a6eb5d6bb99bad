"""A pair of entries and the result of comparing it: plain data."""

from __future__ import annotations

from dataclasses import dataclass

from backprobe.diff.floor import Floor
from backprobe.diff.matches import Match
from backprobe.diff.measure import Measure
from backprobe.record.entries import Entry

VALUE, SHAPE, DTYPE, STATUS = "value", "shape", "dtype", "status"
"""In what a pair can differ."""

NO_NUMBER = "not a number"
"""Why there is nothing to compare, though nothing is wrong: a text, or a module that neither program called."""

ONE_SIDED = "differentiated in one recording alone"
"""Why the gradients of an argument were not compared."""


@dataclass(frozen=True)
class JudgedNumbers:
    """The result for a pair's value or gradient: what differs, if anything, and by how much.

    ``kind`` is ``value``, ``shape``, ``dtype`` or ``status`` if they differ by more than the floor, else empty.
    ``excess`` is the error in units of the floor. ``why`` says why nothing could be compared. ``is_same`` says that
    both recordings hold the same tensor, such as a parameter of a model that ran twice: later writes affect both.
    ``is_given`` says that the second program continued with the first's, and passed no difference on. ``is_from_equal``
    says that the value differs although all its inputs are equal bit for bit.
    """

    kind: str = ""
    excess: float = 0.0
    measure: Measure | None = None
    floor: Floor | None = None
    why: str = ""
    is_same: bool = False
    is_given: bool = False
    is_from_equal: bool = False

    @property
    def is_equal(self) -> bool:
        """Is it equal bit for bit, or something without numbers?"""
        if self.measure is None:
            return not self.kind and self.why in ("", NO_NUMBER)
        return not self.measure.differing and not self.measure.clashes

    @property
    def is_rounding(self) -> bool:
        """Does the value differ only by rounding, with all inputs equal?"""
        return self.is_from_equal and not self.kind

    @property
    def is_passed_on(self) -> bool:
        """Does it differ in a way that affects everything computed from it?"""
        return bool(self.kind) and not self.is_given


@dataclass(frozen=True)
class Row:
    """A pair of entries and the result of comparing it."""

    match: Match
    a: Entry
    b: Entry
    value: JudgedNumbers
    gradient: JudgedNumbers
