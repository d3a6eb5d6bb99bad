"""The floor of a comparison: the error below which two entries count as equal, and how it was determined.

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
ABSOLUTE = 10  # multiple of eps, for the rounding of summands that cancel
ONE = 2  # multiple of eps that the rounding of one operation can change
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
"""Operations, as the source spells them, whose result can be far smaller than the terms that are summed."""


def eps_of(dtype: str | None) -> float:
    """The machine epsilon of a dtype; 0 for a dtype that is not in ``EPS``.

    >>> eps_of("float32") == 2**-23, eps_of("int64")
    (True, 0.0)
    """
    return EPS.get(dtype or "", 0.0)


def dtype_of(eps: float) -> str:
    """The first dtype in ``EPS`` with this eps; empty if there is none."""
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

    ``dtype`` is the dtype whose eps determined it; empty if it was measured, or if no floating dtype is involved.
    """

    rms: float
    largest: float
    dtype: str = ""

    def excess(self, measure: Measure) -> float:
        """The error as a multiple of the floor: by root mean square or largest element, whichever is larger."""
        return max(_times(measure.rms, self.rms), _times(measure.largest, self.largest))


def _times(error: float, floor: float) -> float:
    return error / floor if floor else math.inf if error else 0.0


@dataclass(frozen=True)
class Measured(Floor):
    """A measured floor; ``origin`` says how it was measured."""

    origin: str = ""

    def at_least(self, eps: float, own: Size) -> Measured:
        """This floor, raised to at least the rounding error of one operation with this eps."""
        return Measured(max(self.rms, ONE * eps * own.rms), max(self.largest, ONE * eps * own.largest), "", self.origin)


def by_dtype(eps: float, own: Size, summed: Sequence[Size]) -> Floor:
    """The floor of an entry that was not measured."""
    relative, rounding = math.sqrt(eps), ABSOLUTE * eps
    return Floor(
        relative * own.rms + rounding * max((one.rms for one in summed), default=0.0),
        relative * own.largest + rounding * max((one.largest for one in summed), default=0.0),
        dtype_of(eps),
    )


def uses(own: Size, others: Sequence[Size]) -> Sequence[Size]:
    """For each use that has more elements than the value: the expected magnitude of the use's gradient when it is
    summed to the shape of the value, if signs are random.
    """
    times = [(other, math.sqrt(other.count / own.count)) for other in others if other.count > own.count > 0]
    return [Size(root * other.rms, root * other.largest, own.count) for other, root in times]


def coarsest(
    entries: Sequence[Entry], order: Iterable[int], sources: Callable[[int], Iterable[int]]
) -> Mapping[int, float]:
    """Return for each entry the largest eps among its dtype and the dtypes of everything that it is computed from.

    ``order`` must have inputs first.
    """
    found: dict[int, float] = {}
    for at in order:
        own = 0.0 if entries[at].status is GradStatus.NOT_TENSOR else eps_of(entries[at].dtype)
        found[at] = max([own, *(found.get(source, 0.0) for source in sources(at))])
    return found


@dataclass(frozen=True, repr=False)
class NoiseFloor:
    """How much each entry of a reference varies between runs that should be equal.

    ``values`` and ``gradients`` have a floor for each measured entry, by printed name: for the root mean square and for
    the largest element. Each floor is a multiple of the largest error in ``runs`` runs. ``origin`` describes the runs.
    ``seen`` has the dtypes in which each entry was measured.
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
