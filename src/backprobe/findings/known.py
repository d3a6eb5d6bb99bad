"""Facts about the cause in a finding that are in none of its sentences: each is stated where the finding is made."""

from __future__ import annotations

from enum import Flag, auto


class Known(Flag):
    """Facts by which a report chooses among findings; a finding without any names a line and what that line does.

    >>> Known.STATUS in Known.NO_CUT, Known.OBSERVED in Known.NO_CUT
    (True, False)
    """

    NOTHING = 0
    """No such fact."""

    STATUS = auto()
    """The finding says no more than the status of a value: no line is known that took the value out of the graph."""

    ANOTHER = auto()
    """Another value has taken the place of this one, which leads nowhere."""

    UNSURE = auto()
    """A line names the value and has no edge back to it, and may not have used it."""

    NO_CUT = STATUS | ANOTHER | UNSURE
    """No line is known that has cut it off."""

    NOT_HOW = auto()
    """No edge leads back from the line, and how it takes the value out of the graph is not known."""

    OBSERVED = auto()
    """The framework ran the operation that lets no gradient through, and this was seen."""

    NOTHING_LOST = auto()
    """The derivative of a value was used and its numbers were not: nothing takes a gradient away from it."""

    GRADIENT_THERE = auto()
    """The gradient is there, and of no use."""

    MOMENTARY = auto()
    """So it is with the numbers of one iteration, and may be otherwise with those of the next."""

    NOWHERE = auto()
    """Nothing uses what the line computes."""
