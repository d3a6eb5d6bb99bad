"""The oracle's tensors: objects that share memory, and what a write makes of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count
from typing import Any

import numpy as np

Nudges = dict[int, tuple[Any, Any, Any]]
"""What to add when a moment comes, by moment: rows, columns and amounts."""


@dataclass(eq=False)
class Tensor:
    """An object that a name can hold: the base, which an operation made, or a view of some positions of it.

    ``value`` has a row for every variant of the program that runs. ``moment`` identifies the object at its present
    version, and so what a name bound to it now means. A view has a value of its own between two writes to the memory,
    in which what was added to the view alone can live.
    """

    value: np.ndarray
    positions: np.ndarray
    is_scalar: bool
    moment: int
    family: list[Tensor] = field(default_factory=list)  # the base, then every view ever made

    def __post_init__(self) -> None:
        self.family.append(self)


def plain(operand: Any) -> Any:
    return operand.value if isinstance(operand, Tensor) else operand


def columns(owner: Tensor, index: int | slice) -> np.ndarray:
    return np.atleast_1d(np.arange(len(owner.positions))[index])


class Memory:
    """Makes, views and writes tensors, and adds each nudge at its moment."""

    def __init__(self, nudges: Nudges, rows: int) -> None:
        self.nudges, self.rows = nudges, rows
        self.moments = count(1)
        self.largest = 0.0

    def nudged(self, moment: int, value: np.ndarray) -> np.ndarray:
        if moment in self.nudges:
            rows, chosen, amounts = self.nudges[moment]
            value = value.copy()
            value[rows, chosen] += amounts
        return value

    def made(self, value: np.ndarray, is_scalar: bool = False) -> Tensor:
        """What an operation returns: an object with memory of its own, where anything added to it is kept."""
        moment, size = next(self.moments), value.shape[1]
        value = self.nudged(moment, np.broadcast_to(value, (self.rows, size)))
        self.largest = max(self.largest, float(np.abs(value).max()))
        return Tensor(value, np.arange(size), is_scalar, moment)

    def viewed(self, owner: Tensor, index: int | slice) -> Tensor:
        """A view: what is added to it is seen through it and through views of it, until the memory is written."""
        moment, chosen = next(self.moments), columns(owner, index)
        value = self.nudged(moment, owner.value[:, chosen])
        return Tensor(value, owner.positions[chosen], isinstance(index, int), moment, owner.family)

    def written(self, through: Tensor, value: np.ndarray) -> None:
        """A write: a new version of every object on that memory.

        What is added to the object written through, or to the base, is in the memory from then on; what is added to
        any other view is seen through that view alone.
        """
        base, *views = through.family
        for each in through.family:
            each.moment = next(self.moments)
        value = np.broadcast_to(value, through.value.shape)
        self.largest = max(self.largest, float(np.abs(value).max()))
        base.value = base.value.copy()
        base.value[:, through.positions] = self.nudged(through.moment, value)
        if through is not base:
            base.value = self.nudged(base.moment, base.value)
        for view in views:
            seen = base.value[:, view.positions]
            view.value = seen if view is through else self.nudged(view.moment, seen)

    def stored(self, owner: Tensor, index: int | slice, value: Any) -> None:
        """``owner[index] = value``: a write through the owner, all of it."""
        new = owner.value.copy()
        new[:, columns(owner, index)] = plain(value)
        self.written(owner, new)
