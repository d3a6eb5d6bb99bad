"""The floor of a comparison: the error below which two entries count as equal, and where it comes from.

Without a measurement, the relative floor is the square root of eps of the coarsest dtype in the entry's computation.
Sums that cancel have no relative accuracy: for these, 10 eps of the magnitude of the summands is added. The summands
are the entry's inputs; or, for the gradient of a value that is used many times, such as a bias, the gradients of its
uses.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from backprobe.diff.measure import Measure
from backprobe.findings.phrasing import plural
from backprobe.record.entries import Entry, GradStatus

EPS = {
    "float64": 2.0**-52,
    "complex128": 2.0**-52,
    "float32": 2.0**-23,
    "complex64": 2.0**-23,
    "float16": 2.0**-10,
    "complex32": 2.0**-10,
    "bfloat16": 2.0**-7,
    "float8_e4m3fn": 2.0**-3,
    "float8_e4m3fnuz": 2.0**-3,
    "float8_e4m3": 2.0**-3,
    "float8_e5m2": 2.0**-2,
    "float8_e5m2fnuz": 2.0**-2,
}
"""The distance from 1 to the next number of a dtype."""
ABSOLUTE = 10  # eps
ONE = 2  # eps: what the rounding of one operation can change
SUMS = frozenset(
    {
        "add",
        "sub",
        "sum",
        "mean",
        "matmul",
        "mm",
        "bmm",
        "addmm",
        "dot",
        "einsum",
        "linear",
        "tensordot",
        "reduce_sum",
        "reduce_mean",
        "subtract",
    }
)
"""Operations, as a source spells them, whose result can be far smaller than the terms that they add up."""


def eps_of(dtype: str | None) -> float:
    """The machine epsilon of a floating dtype; 0 for any other dtype.

    >>> eps_of("float32") == 2**-23, eps_of("int64")
    (True, 0.0)
    """
    return EPS.get(dtype or "", 0.0)


def dtype_of(eps: float) -> str:
    """The dtype with this eps."""
    return next((name for name, own in EPS.items() if own == eps), "")


@dataclass(frozen=True)
class Size:
    """The magnitude of an array: its root mean square, largest magnitude, and number of elements."""

    rms: float
    largest: float
    count: int

    @classmethod
    def of(cls, measure: Measure) -> Size:
        return cls(measure.reference_rms, measure.reference_largest, measure.size)


@dataclass(frozen=True)
class Floor:
    """The largest error of an entry that still counts as equal, as root mean square and for a single element.

    ``dtype`` is the dtype whose eps determined it; empty if it was measured.
    """

    rms: float
    largest: float
    dtype: str = ""

    def excess(self, measure: Measure) -> float:
        """How many times the floor an error is, by root mean square or largest element, whichever is more."""
        return max(_times(measure.rms, self.rms), _times(measure.largest, self.largest))


def _times(error: float, floor: float) -> float:
    return error / floor if floor else math.inf if error else 0.0


@dataclass(frozen=True)
class Measured(Floor):
    """A measured floor; ``origin`` says how it was measured."""

    origin: str = ""

    def at_least(self, eps: float, own: Size) -> Measured:
        """The same floor, but at least the rounding of one operation with this eps."""
        return Measured(max(self.rms, ONE * eps * own.rms), max(self.largest, ONE * eps * own.largest), "", self.origin)


def by_dtype(eps: float, own: Size, summed: Sequence[Size]) -> Floor:
    """The floor of an entry without a measurement."""
    relative, rounding = math.sqrt(eps), ABSOLUTE * eps
    return Floor(
        relative * own.rms + rounding * max((one.rms for one in summed), default=0.0),
        relative * own.largest + rounding * max((one.largest for one in summed), default=0.0),
        dtype_of(eps),
    )


def uses(own: Size, others: Sequence[Size]) -> Sequence[Size]:
    """The expected magnitude of random sums over the uses of a smaller value, given gradients of larger ones."""
    times = [(other, math.sqrt(other.count / own.count)) for other in others if other.count > own.count > 0]
    return [Size(root * other.rms, root * other.largest, own.count) for other, root in times]


def coarsest(
    entries: Sequence[Entry], order: Iterable[int], sources: Callable[[int], Iterable[int]]
) -> Mapping[int, float]:
    """For each entry, the largest eps among itself and its inputs; ``order`` has inputs first."""
    found: dict[int, float] = {}
    for at in order:
        own = 0.0 if entries[at].status is GradStatus.NOT_TENSOR else eps_of(entries[at].dtype)
        found[at] = max([own, *(found.get(source, 0.0) for source in sources(at))])
    return found


@dataclass(frozen=True, repr=False)
class NoiseFloor:
    """How much each entry of a reference varies between runs that should be equal.

    ``values`` and ``gradients`` hold a floor for each entry, by printed name: root mean square and largest element,
    each a multiple of the largest error seen in ``runs`` runs. ``origin`` describes the runs.
    """

    values: Mapping[str, Measured]
    gradients: Mapping[str, Measured]
    runs: int
    origin: str
    seen: Mapping[str, Collection[str]] = field(default_factory=dict)

    def floor(self, name: str, of: str) -> Measured | None:
        """The floor of an entry's ``value`` or ``gradient``; None if it was not measured."""
        return (self.values if of == "value" else self.gradients).get(name)

    def dtypes(self, name: str) -> Collection[str]:
        """The dtypes in which an entry was measured."""
        return self.seen.get(name, ())

    def __repr__(self) -> str:
        return f"<NoiseFloor of {plural(len(self.values), 'value')}: {self.origin}>"
