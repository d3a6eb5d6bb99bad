"""The rounding error of one operation: the floor of a value whose inputs are equal bit for bit.

The error of a sum of n rounded terms is about sqrt(n) times the rounding of one term (Higham, Accuracy and Stability of
Numerical Algorithms, 2.6: the rule of thumb). The number of terms is not recorded: it is taken to be the longest axis
involved, or the number of input elements per output element, if that is more.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from backprobe.diff.floor import Floor, Size

ULPS = 8
INPUTS = 4
"""The largest number of inputs of a single operation; a value with more inputs is computed by several operations."""


@dataclass(frozen=True)
class Rounding(Floor):
    """A floor that is the rounding error of one operation, which sums ``terms`` terms."""

    terms: int = 1


def by_rounding(floor: Floor, eps: float, own: Size, inputs: Sequence[Size], shapes: Sequence[Sequence[int]]) -> Floor:
    """Return the floor of a value with equal inputs: its rounding error if that is smaller than the usual floor.

    ``shapes`` are those of the value and its inputs.
    """
    largest = max((one.count for one in inputs), default=1)
    terms = max([1, *(size for shape in shapes for size in shape), largest // max(own.count, 1)])
    factor = ULPS * eps * math.sqrt(terms) * max(1.0, len(inputs) / INPUTS)
    rms, peak = (factor * max(getattr(one, of) for one in (own, *inputs)) for of in ("rms", "largest"))
    return floor if rms >= floor.rms or peak >= floor.largest else Rounding(rms, peak, floor.dtype, terms)
