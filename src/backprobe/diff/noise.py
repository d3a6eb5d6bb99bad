"""Measured floors: how much each entry of a reference varies between equivalent runs, by name."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Sequence
from typing import Any

from backprobe.backends.discover import load_arrays
from backprobe.diff.alignment import align
from backprobe.diff.floor import Measured, NoiseFloor
from backprobe.diff.measure import Measure
from backprobe.diff.measuring import measure
from backprobe.diff.side import Side
from backprobe.errors import BadOption
from backprobe.findings.phrasing import plural
from backprobe.record.entries import Entry, GradStatus, Record
from backprobe.record.held import Lost
from backprobe.record.options import Option
from backprobe.recording import Recording, opened, refuse_several

NOISE = Option(
    "noise",
    object,
    None,
    "[bp.probe(f)(x), bp.probe(f)(x)], run in other ways that are right as well",
    says="recordings of the reference, or paths of saved ones",
)

LARGE, SMALL = 4, 12
"""A floor is 4 times the largest measured error, and up to 16 times for few elements, whose errors vary more."""


def factor(count: int) -> float:
    """Return the factor for the measured error of an array with ``count`` elements.

    >>> factor(1), factor(10**6)
    (16.0, 4.012)
    """
    return LARGE + SMALL / math.sqrt(max(count, 1))


Moved = Sequence[tuple[str, str, Measure | None, Measure | None]]
"""For each matched entry of one run: the reference's name for it, its dtype, and how much its value and gradient differ
from the reference, or None if they cannot be compared.
"""


def measured(reference: Record, runs: Iterable[Record], origin: str) -> NoiseFloor:
    """Compute floors from several runs of a reference."""
    return floor_of((compared(reference, run) for run in runs), origin)


def compared(reference: Record, run: Record) -> Moved:
    """Return how much the entries of a run differ from their partners in the reference."""
    a, b = Side(reference), Side(run)
    pairs = [(a.entries[match.a], b.entries[match.b]) for match in align(a, b, ()).matches]
    return [
        (
            first.name,
            second.dtype or "",
            _values(first, second, reference, run),
            _gradients(first, second, reference, run),
        )
        for first, second in pairs
    ]


def floor_of(runs: Iterable[Moved], origin: str) -> NoiseFloor:
    """Compute floors from the differences of several runs."""
    values: dict[str, Measured] = {}
    gradients: dict[str, Measured] = {}
    seen: dict[str, set[str]] = {}
    count = 0
    for count, run in enumerate(runs, 1):  # noqa: B007
        for name, dtype, value, gradient in run:
            seen.setdefault(name, set()).add(dtype)
            for floors, found in ((values, value), (gradients, gradient)):
                if found is not None:
                    floors[name] = _wider(floors.get(name), found, origin)
    return NoiseFloor(values, gradients, count, origin, seen)


def _wider(known: Measured | None, found: Measure, origin: str) -> Measured:
    times = factor(found.size)
    rms, largest = times * found.rms, times * found.largest
    return Measured(max(rms, known.rms if known else 0.0), max(largest, known.largest if known else 0.0), "", origin)


def _values(first: Entry, second: Entry, a: Record, b: Record) -> Measure | None:
    if isinstance(first.held, Lost) or isinstance(second.held, Lost):
        return None
    return _measure(first.held, second.held, a, b)


def _gradients(first: Entry, second: Entry, a: Record, b: Record) -> Measure | None:
    if not first.status is second.status is GradStatus.OK:
        return None
    return _measure(first.held_grad, second.held_grad, a, b)


def _measure(first: Any, second: Any, a: Record, b: Record) -> Measure | None:
    arrays = load_arrays(a.backend), load_arrays(b.backend)
    if not (arrays[0].is_tensor(first) and arrays[1].is_tensor(second)):
        return None
    x, y = arrays[0].rows(first), arrays[1].rows(second)
    if x is None or y is None or x.shape != y.shape:
        return None
    found = measure(x, y)
    return found if math.isfinite(found.rms) else None


def noise_of(noise: Any, reference: Recording) -> NoiseFloor | None:
    """The measured floors for the option ``noise=``; None without it. Raises BadOption for anything but floors,
    recordings of one output and paths, and if no recording has a value of the reference.
    """
    if noise is None or isinstance(noise, NoiseFloor):
        return noise
    several = isinstance(noise, Sequence) and not isinstance(noise, str)
    given = list(noise) if several else [noise]
    others = [opened(one) if isinstance(one, str | os.PathLike) else one for one in given]
    if not others or not all(isinstance(one, Recording) for one in others):
        raise NOISE.refused(noise)
    for one in others:
        refuse_several(one, "noise=rec", "noise=rec.of({})")
    found = measured(reference.record, [one.record for one in others], f"{plural(len(others), 'other recording')}")
    if not found.values:
        raise BadOption(
            "no recording of noise= has a value of the first recording",
            asked="noise=[...]",
            found=f"{plural(len(others), 'recording')}",
            why="noise is measured on the reference itself",
            next="noise=[bp.probe(f)(x)], with the function and the arguments of the first recording",
        )
    return found
