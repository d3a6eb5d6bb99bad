"""The outcomes of many captures, stored in columns: most have a value and a gradient, and need nothing else."""

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
"""The status and its reason, two lines of which one may be the cause, and the version."""


@dataclass(frozen=True, eq=False, slots=True)
class Outcomes(Sequence[Outcome]):
    """An ``Outcome`` for each capture; those with a gradient are only created on demand."""

    values: Sequence[Any]
    grads: Sequence[Any]
    inputs: Sequence[tuple[int, ...]]
    """The captures that flow into each, by position."""

    is_leaf: Sequence[bool]
    versions: Sequence[int]
    """The versions of the values, which share memory with the program."""

    unusual: dict[int, Outcome]
    """The outcomes that need more, by position: those without a gradient, or without a value."""

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
    """The edges with what is kept of their contributions; their partials are dropped unless all is kept."""
    if flow is None:
        return edges
    return [
        edge if edge.contribution is None else Edge(edge.at, contribution=flow(edge.at, edge.contribution))
        for edge in edges
    ]


def gradients(outcomes: Sequence[Outcome]) -> list[tuple[bool, Any]]:
    """For each capture, whether it has a gradient, and the gradient."""
    if not isinstance(outcomes, Outcomes):
        return [(one.status is GradStatus.OK, one.grad) for one in outcomes]
    found: list[tuple[bool, Any]] = [*zip(repeat(True), outcomes.grads, strict=False)]
    for at in outcomes.without:
        found[at] = False, None
    for at, outcome in outcomes.unusual.items():
        found[at] = outcome.status is GradStatus.OK, outcome.grad
    return found


def unusual(outcomes: Sequence[Outcome]) -> Iterable[tuple[int, Outcome]]:
    """The outcomes whose value may not be a tensor, by position."""
    return outcomes.unusual.items() if isinstance(outcomes, Outcomes) else enumerate(outcomes)
