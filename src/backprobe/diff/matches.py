"""A match: two entries that belong together, or parts of them."""

from __future__ import annotations

from dataclasses import dataclass

BY_NAME, BY_PATH, BY_PLACE = "by name", "by path", "by shape and place"
BY_SOURCES = "by what it is computed from"
BY_LAST = "as the last with this name"


@dataclass(frozen=True)
class ParameterReading:
    """What is compared of an entry that is a parameter.

    ``part`` is which one of ``of`` equal parts along its outputs, as the query's of a weight that holds three
    projections. ``added`` are other parameters whose sum with it counts, as the two biases of a recurrent layer.
    """

    part: int = 0
    of: int = 1
    added: tuple[int, ...] = ()


WHOLE = ParameterReading()


@dataclass(frozen=True)
class Match:
    """Two entries that belong together, by their positions, and how that was found.

    ``is_shared`` says that one of them has another partner: it has a name here that there is another value's. Their
    gradients are not compared, since that of one value is the sum over all its uses. ``readings`` say what of each is
    compared.
    """

    a: int
    b: int
    how: str
    is_shared: bool = False
    readings: tuple[ParameterReading, ParameterReading] = (WHOLE, WHOLE)
