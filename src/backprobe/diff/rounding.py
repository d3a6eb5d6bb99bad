"""The error that rounding gives to one operation: the floor of a value whose inputs are equal bit for bit.

A sum of n terms that are rounded one by one is off by about the root of n times the rounding of one (Higham, Accuracy
and Stability of Numerical Algorithms, 2.6: the rule of thumb). How many terms a value sums is not recorded: it is taken
to be the longest axis around it, or how many numbers go into one, where that is more.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from backprobe.diff.floor import Floor, Size

ULPS = 8
INPUTS = 4
"""So many inputs are those of one operation; what has more is computed by several."""


@dataclass(frozen=True)
class Rounding(Floor):
    """A floor that is the rounding of one operation, which sums so many ``terms``."""

    terms: int = 1


def by_rounding(floor: Floor, eps: float, own: Size, inputs: Sequence[Size], shapes: Sequence[Sequence[int]]) -> Floor:
    """The floor of a value with equal inputs: its rounding, where that is less than the floor that it has.

    ``shapes`` are those of the value and of what it is computed from.
    """
    largest = max((one.count for one in inputs), default=1)
    terms = max([1, *(size for shape in shapes for size in shape), largest // max(own.count, 1)])
    factor = ULPS * eps * math.sqrt(terms) * max(1.0, len(inputs) / INPUTS)
    rms, peak = (factor * max(getattr(one, of) for one in (own, *inputs)) for of in ("rms", "largest"))
    return floor if rms >= floor.rms or peak >= floor.largest else Rounding(rms, peak, floor.dtype, terms)
