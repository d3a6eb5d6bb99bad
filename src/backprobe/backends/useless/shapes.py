"""Operands that broadcasting has stretched to more elements than intended, such as [N] - [N, 1], which gives [N, N]."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

Shape = tuple[int, ...]


@dataclass(eq=False)
class Stretched:
    """A result that is larger than its operands, and how it is used."""

    shapes: Sequence[Shape]
    result: Shape
    number: int  # the backend's number of the operation or of its result
    place: Any = None  # the line of the operation, in the backend's own form
    is_reduced: bool = False  # is the result reduced to one number?
    is_used: bool = False  # is the result used other than elementwise, or together with another array of this size?

    @property
    def is_accident(self) -> bool:
        """Are all elements reduced to one number, with only elementwise operations in between?"""
        return self.is_reduced and not self.is_used


def use_beside(given: Sequence[tuple[Shape, Sequence[Stretched]]]) -> None:
    """Mark broadcast results that one operation combines with another array of the full shape.

    Each operand is given with its shape, and with the broadcast results from which it is computed. If another operand
    has the full shape, that shape was intended, as in a table of rows and columns.

    >>> table = Stretched([(2, 1), (2,)], (2, 2), 0)
    >>> use_beside([((2, 2), [table]), ((2, 2), [])])
    >>> table.is_used
    True
    """
    others = {tuple(shape) for shape, stretched in given if not stretched}
    for each in [one for _, stretched in given for one in stretched]:
        each.is_used |= tuple(each.result) in others


def meet_elsewhere(shapes: Sequence[Shape], rank: int) -> bool:
    """Are two shapes stretched by each other: does each have a dimension of the same size, in which the other has size
    1?

    >>> meet_elsewhere([(16, 1), (16,)], 2), meet_elsewhere([(16, 1), (8,)], 2)
    (True, False)
    """
    one, other = ((1,) * (rank - len(shape)) + shape for shape in shapes)
    if len(one) != len(other):
        return False
    pairs = [*zip(one, other, strict=True)]
    return bool({a for a, b in pairs if a > 1 == b} & {b for a, b in pairs if b > 1 == a})
