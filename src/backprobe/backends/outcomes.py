"""Stores the outcomes of many captures in columns, because most of them consist only of a value and a gradient."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any, overload

from backprobe.backends.facts import Outcome
from backprobe.record.entries import GradStatus
from backprobe.record.inputs import Edge
from backprobe.record.reasons import Reason
from backprobe.record.source import Source

WithoutHistory = tuple[GradStatus, Reason | None, Source | None, Source | None, int]
"""The status of a capture without a history, the reason, two lines that may be the cause (the first known one counts),
and the version of the value.
"""


@dataclass(frozen=True, eq=False, slots=True)
class Outcomes(Sequence[Outcome]):
    """A sequence with an ``Outcome`` for each capture. Those not in ``unusual`` are created when they are read."""

    values: Sequence[Any]
    grads: Sequence[Any]
    inputs: Sequence[tuple[int, ...]]
    """For each capture, the positions of the captures from which it was computed."""

    is_leaf: Sequence[bool]
    versions: Sequence[int]
    """The version counters of the values, which share memory with the program."""

    unusual: dict[int, Outcome]
    """By position: the outcomes without a gradient, without a value, or with further facts."""

    without: dict[int, WithoutHistory]
    """What is known of the captures that have a value but no history, by position."""

    def __len__(self) -> int:
        return len(self.values)

    @overload
    def __getitem__(self, at: int) -> Outcome: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Outcome]: ...
    def __getitem__(self, at: int | slice) -> Outcome | Sequence[Outcome]:
        if isinstance(at, slice):
            return [*self][at]
        if at in self.unusual:
            return self.unusual[at]
        if at in self.without:
            status, why, first, second, version = self.without[at]
            return Outcome(status, why, self.values[at], cause=first or second, version=version)
        inputs = tuple([Edge(source) for source in self.inputs[at]])
        return Outcome(
            GradStatus.OK,
            None,
            self.values[at],
            self.grads[at],
            inputs,
            is_leaf=self.is_leaf[at],
            version=self.versions[at],
        )

    def __iter__(self) -> Iterator[Outcome]:
        return map(self.__getitem__, range(len(self)))


def with_flow(edges: Sequence[Edge], flow: Callable[[int, Any], Any] | None) -> Sequence[Edge]:
    """Return the edges with the parts of their contributions that ``flow`` keeps. Without ``flow``, return them
    unchanged. With it, an edge that has a contribution loses its partial.
    """
    if flow is None:
        return edges
    return [
        edge if edge.contribution is None else Edge(edge.at, contribution=flow(edge.at, edge.contribution))
        for edge in edges
    ]


def gradients(outcomes: Sequence[Outcome]) -> list[tuple[bool, Any]]:
    """For each capture, return whether it has a gradient, and the gradient."""
    if not isinstance(outcomes, Outcomes):
        return [(one.status is GradStatus.OK, one.grad) for one in outcomes]
    found: list[tuple[bool, Any]] = [*zip(repeat(True), outcomes.grads, strict=False)]
    for at in outcomes.without:
        found[at] = False, None
    for at, outcome in outcomes.unusual.items():
        found[at] = outcome.status is GradStatus.OK, outcome.grad
    return found


def unusual(outcomes: Sequence[Outcome]) -> Iterable[tuple[int, Outcome]]:
    """Return the outcomes whose values may not be tensors, with their positions."""
    return outcomes.unusual.items() if isinstance(outcomes, Outcomes) else enumerate(outcomes)
