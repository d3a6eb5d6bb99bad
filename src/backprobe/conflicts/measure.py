"""Computes conflicts between gradients, in double precision on the CPU."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy

from backprobe.backends.discover import load_arrays
from backprobe.conflicts import TOGETHER, Conflict, Conflicts
from backprobe.record.entries import Entry, Record
from backprobe.record.graph import Graph


@dataclass(frozen=True)
class Vector:
    """A gradient, scaled by its largest magnitude so that squares cannot overflow or underflow."""

    scale: float
    numbers: Any

    @property
    def length(self) -> float:
        return float(numpy.linalg.norm(self.numbers))

    @property
    def norm(self) -> float:
        return self.scale * self.length


def conflicts(record: Record, entries: Mapping[str, Entry]) -> Conflicts:
    """Compare the gradients of each pair of outputs, for some entries of a record."""
    arrays, graph, keys = load_arrays(record.backend), Graph.of(record), tuple(record.by_output)
    found: list[Conflict] = []
    parameters: list[Mapping[str, Vector]] = []
    for name, entry in entries.items():
        numbers = {key: arrays.numbers(gradient) for key, gradient in entry.grads.items()}
        vectors = {key: vector(one) for key, one in numbers.items() if one is not None and one.size}
        found += [_compared(name, pair, [vectors]) for pair in _pairs(keys, [vectors])]
        if graph.positions[name] in graph.parameters:
            parameters.append(vectors)
    shared = [own for own in parameters if len(own) > 1]
    together = [_compared(TOGETHER, pair, shared) for pair in _pairs(keys, shared)] if len(shared) > 1 else []
    return Conflicts(keys, tuple(found), tuple(together))


def _pairs(keys: Sequence[str], held: Iterable[Mapping[str, Vector]]) -> list[tuple[str, str]]:
    # The pairs of outputs for which at least one of the entries has both gradients.
    there = [set(own) for own in held]
    return [pair for pair in combinations(keys, 2) if any(own.issuperset(pair) for own in there)]


def vector(numbers: Any) -> Vector:
    largest = float(numpy.abs(numbers).max())
    return Vector(largest, numbers / largest if math.isfinite(largest) and largest else numbers)


def _compared(name: str, pair: tuple[str, str], held: Iterable[Mapping[str, Vector]]) -> Conflict:
    # Compare one pair over all entries with both gradients, as if these gradients were one long vector. The cosine is
    # NaN if one of the vectors is 0 or not finite.
    both = [(own[pair[0]], own[pair[1]]) for own in held if own.keys() >= set(pair)]
    first, second = (math.hypot(*(one[at].norm for one in both)) for at in (0, 1))
    if not (first and second and math.isfinite(first) and math.isfinite(second)):
        return Conflict(name, pair, math.nan, (first, second))
    # each norm is taken as a share of the whole, so that the products neither overflow nor underflow
    cosine = math.fsum(a.norm / first * (b.norm / second) * _angle(a, b) for a, b in both)
    return Conflict(name, pair, min(max(cosine, -1.0), 1.0), (first, second))


def _angle(a: Vector, b: Vector) -> float:
    # The cosine of two vectors; 0 if one of them is 0. A complex number counts as two real numbers.
    lengths = a.length * b.length
    return float(numpy.vdot(a.numbers, b.numbers).real) / lengths if lengths else 0.0
