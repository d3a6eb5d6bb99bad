"""Operands that broadcasting has stretched to more elements than the program asked for, as [N] - [N, 1] is [N, N]."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

Shape = tuple[int, ...]


@dataclass(eq=False)
class Stretched:
    """A result that is larger than its operands, and what became of it."""

    shapes: Sequence[Shape]
    result: Shape
    number: int  # of the operation, or of its result, as the backend counts
    place: Any = None  # its line, as the backend has it
    is_reduced: bool = False  # to one number
    is_used: bool = False  # other than elementwise, or with another array that is as large

    @property
    def is_accident(self) -> bool:
        """Are all of its elements reduced to one number, with only elementwise operations in between?"""
        return self.is_reduced and not self.is_used


def use_beside(given: Sequence[tuple[Shape, Sequence[Stretched]]]) -> None:
    """Operands of one operation, each with its shape and with what it was computed from that was stretched.

    What is used with another array of its whole shape was meant to have that, as a table of rows and columns.

    >>> table = Stretched([(2, 1), (2,)], (2, 2), 0)
    >>> use_beside([((2, 2), [table]), ((2, 2), [])])
    >>> table.is_used
    True
    """
    others = {tuple(shape) for shape, stretched in given if not stretched}
    for each in [one for _, stretched in given for one in stretched]:
        each.is_used |= tuple(each.result) in others


def meet_elsewhere(shapes: Sequence[Shape], rank: int) -> bool:
    """Do two shapes have a dimension of the same size, each where the other has 1?

    >>> meet_elsewhere([(16, 1), (16,)], 2), meet_elsewhere([(16, 1), (8,)], 2)
    (True, False)
    """
    one, other = ((1,) * (rank - len(shape)) + shape for shape in shapes)
    if len(one) != len(other):
        return False
    pairs = [*zip(one, other, strict=True)]
    return bool({a for a, b in pairs if a > 1 == b} & {b for a, b in pairs if b > 1 == a})
