"""A pair of entries, and the result of comparing it, as plain data."""

from __future__ import annotations

from dataclasses import dataclass

from backprobe.diff.floor import Floor
from backprobe.diff.matches import Match
from backprobe.diff.measure import Measure
from backprobe.record.entries import Entry

VALUE, SHAPE, DTYPE, STATUS = "value", "shape", "dtype", "status"
"""The kinds of difference of a pair."""

NO_NUMBER = "not a number"
"""The reason if there was nothing to compare, without any error: a string, or a module that neither program called."""

ONE_SIDED = "differentiated in one recording alone"
"""The reason why gradients of an argument were not compared."""


@dataclass(frozen=True)
class JudgedNumbers:
    """The result for a pair's value or gradient: the kind of difference, if any, and its size.

    ``kind`` is ``value`` if they differ by more than the floor, ``shape``, ``dtype`` or ``status`` if these differ,
    else empty. ``excess`` is the error in units of the floor. ``why`` is the reason if nothing was compared.
    ``is_same`` is True if both recordings hold the same memory, such as a parameter of a model that ran twice: later
    writes then affect both. ``is_given`` is True if the second program continued with the value of the first, so that
    the difference had no effect. ``is_from_equal`` is True if the value differs, also within its floor, although all
    its inputs are bitwise equal or taken from the first.
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
        """Is the pair bitwise equal, or without any numbers?"""
        if self.measure is None:
            return not self.kind and self.why in ("", NO_NUMBER)
        return not self.measure.differing and not self.measure.clashes

    @property
    def is_rounding(self) -> bool:
        """Does the value differ only by rounding, with all inputs equal?"""
        return self.is_from_equal and not self.kind

    @property
    def is_passed_on(self) -> bool:
        """Does the pair differ, so that what is computed from it may differ, too? False if the second program continued
        with the value of the first.
        """
        return bool(self.kind) and not self.is_given


@dataclass(frozen=True)
class Row:
    """A pair of entries and the result of comparing it."""

    match: Match
    a: Entry
    b: Entry
    value: JudgedNumbers
    gradient: JudgedNumbers

    @property
    def names(self) -> tuple[str, str]:
        """The names of the pair in the two recordings: twice the same if both know it by one name, even as an alias."""
        others = (self.b.name, *self.b.aliases)
        shared = next((name for name in (self.a.name, *self.a.aliases) if name in others), None)
        return (self.a.name, self.b.name) if shared is None else (shared, shared)
