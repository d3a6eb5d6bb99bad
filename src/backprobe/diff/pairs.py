"""A pair of entries, and what comparing it gave: plain data."""

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
    """The value of a pair, or its gradient: what is different, if anything is, and by how much.

    ``kind`` is ``value``, ``shape``, ``dtype`` or ``status`` where they differ by more than the floor, else empty.
    ``excess`` is the error in units of the floor. ``why`` says why nothing could be compared. ``is_same`` says that
    both recordings hold one tensor, as the parameter of a model that ran twice: later writes to it are in both.
    ``is_given`` says that the second program went on with that of the first, and passed nothing on that differs.
    ``is_from_equal`` says of a value that differs at all that everything it is computed from is equal bit for bit.
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
        """Is it equal bit for bit, or nothing that has numbers?"""
        if self.measure is None:
            return not self.kind and self.why in ("", NO_NUMBER)
        return not self.measure.differing and not self.measure.clashes

    @property
    def is_rounding(self) -> bool:
        """Does a value differ by no more than rounding, though all that it is computed from is equal?"""
        return self.is_from_equal and not self.kind

    @property
    def is_passed_on(self) -> bool:
        """Does something differ that what comes after is computed from?"""
        return bool(self.kind) and not self.is_given


@dataclass(frozen=True)
class Row:
    """A pair of entries and what comparing them gave."""

    match: Match
    a: Entry
    b: Entry
    value: JudgedNumbers
    gradient: JudgedNumbers
