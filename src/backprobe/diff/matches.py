"""A match: two entries of the two recordings, or parts of them, that are compared with each other."""

from __future__ import annotations

from dataclasses import dataclass

BY_NAME, BY_PATH, BY_PLACE = "by name", "by path", "by shape and place"
BY_NUMBERS = "by shape and numbers"
BY_SOURCES = "by what it is computed from"
BY_LAST = "as the last with this name"


@dataclass(frozen=True)
class ParameterReading:
    """The part of a parameter that is compared.

    ``part`` is the index among ``of`` equal parts along its outputs, such as the query's part of a weight that holds
    three projections. ``added`` are other parameters that are added to it, such as the second bias of a recurrent
    layer.
    """

    part: int = 0
    of: int = 1
    added: tuple[int, ...] = ()


WHOLE = ParameterReading()


@dataclass(frozen=True)
class Match:
    """Two entries that are partners, by their positions, and how the match was found.

    ``is_shared`` is True if one of them already has another partner, because one program has two values and the other
    has only one. The gradients are then not compared, because the gradient of the single value is the sum over all its
    uses. ``readings`` say which part of each entry is compared.
    """

    a: int
    b: int
    how: str
    is_shared: bool = False
    readings: tuple[ParameterReading, ParameterReading] = (WHOLE, WHOLE)
