"""Facts about the cause of a finding for use by the program. No sentence of the finding states them."""

from __future__ import annotations

from enum import Flag, auto


class Known(Flag):
    """Facts by which a report chooses among findings. A finding without them names a line that explains the loss.

    >>> Known.STATUS in Known.NO_CUT, Known.OBSERVED in Known.NO_CUT
    (True, False)
    """

    NOTHING = 0
    """None of the facts below."""

    STATUS = auto()
    """The finding repeats the status of a value, but no line is known that removed the value from the graph."""

    ANOTHER = auto()
    """The value is not used because another value has replaced it."""

    UNSURE = auto()
    """A line mentions the value without an edge from it. Perhaps the line did not use the value."""

    NO_CUT = STATUS | ANOTHER | UNSURE
    """No line is known for certain that cut the value off."""

    NOT_HOW = auto()
    """There is no edge from the value to the line's result, but it is unknown how the line lost it."""

    OBSERVED = auto()
    """The framework was observed running the operation that blocks the gradient."""

    NOTHING_LOST = auto()
    """Only the derivative of the value was used, not its numbers, so no gradient was lost."""

    GRADIENT_THERE = auto()
    """The value has a gradient, but a useless one."""

    MOMENTARY = auto()
    """The problem was seen in one iteration, and may be absent in the next."""

    NOWHERE = auto()
    """The result of the line is not used."""
