"""Exchanging: a program goes on with the values and gradients of another one, each by its own name.

Unlike what ``replace=`` puts there, a value keeps its history, so that gradients flow on through all of the program.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from backprobe.backends.protocol import Tape
from backprobe.record.containers import with_leaves
from backprobe.record.names import strip
from backprobe.tracing.replacing import ByName, Instead, Marks, Replacing


@dataclass(frozen=True)
class Given:
    """What the program continues with in place of one value: NumPy arrays, None where it stays. ``number`` identifies
    it.
    """

    number: int
    value: Any = None
    gradient: Any = None


@dataclass(frozen=True)
class Exchange(Instead):
    """What goes on, by the names of a program, and what became of it when the program has run.

    A name that the program binds once is written without its counts, any other with all of them.

    ``values`` and ``gradients`` have what would have gone on, by number: of a value True, as its entry has it; of a
    gradient the gradient itself.
    """

    given: Mapping[str, Given]
    values: dict[int, bool] = field(default_factory=dict)
    gradients: dict[int, Any] = field(default_factory=dict)

    def replacing(self, tape: Tape, *, in_function: bool) -> Replacing:
        return Exchanging(self, tape, in_function=in_function)

    def of(self, full: str) -> Given | None:
        """What the program continues with, instead of the value bound to this full name."""
        return self.given.get(full) or self.given.get(strip(full))


class Exchanging(ByName):
    """What is exchanged in one run. What cannot be is left as it is."""

    def __init__(self, exchange: Exchange, tape: Tape, *, in_function: bool) -> None:
        super().__init__(exchange.given, tape, in_function=in_function)
        self.into = exchange
        self.first: dict[int, str] = {}
        """For each exchanged value the first of its names: its other names already refer to the new value."""

    def exchange(
        self, name: str, full: str, value: Any, found: Sequence[tuple[str, Any]], known: Container[int]
    ) -> tuple[Any, Marks]:
        now, marks = dict(found), []
        for leaf, item in found:
            given = self._given(full + leaf)
            if given is not None and self._can(given, full + leaf, item):
                now[leaf], original = self._exchanged(given, item)
                marks.append((leaf, original, given.gradient is not None))
        if not marks:
            return value, ()
        return with_leaves(value, {leaf: now[leaf] for leaf, _, _ in marks}), tuple(marks)

    def _given(self, full: str) -> Given | None:
        # What goes on for a name; where functions are traced, perhaps again, calls cannot be counted.
        return self.into.given.get(strip(full)) if self.replaces.is_tracing() else self.into.of(full)

    def _can(self, given: Given, full: str, item: Any) -> bool:
        # Is it a tensor that the first of its names is bound to, and that is computed once?
        if not self._is_floating(item) or self.replaces.runs_again():
            return False
        if self.first.setdefault(given.number, full) != full:
            return False
        numbers = [one for one in (given.value, given.gradient) if one is not None]
        return all(one.shape == tuple(self.tape.describe(item).shape or ()) for one in numbers)

    def _exchanged(self, given: Given, item: Any) -> tuple[Any, int | None]:
        # What goes on in the place of a tensor, and where that is kept, if it is another value.
        made, kept = item, None
        if given.value is not None:
            kept = self._kept(item)
            made = self.replaces.with_numbers(self.replaces.like(given.value, item), item)
            self.into.values[given.number] = True
        if given.gradient is not None:
            made = self.replaces.with_gradient(made, lambda arrived: self._flows_on(given, arrived))
        return made, kept

    def _flows_on(self, given: Given, arrived: Any) -> Any:
        self.into.gradients[given.number] = arrived  # JAX calls it while it traces, and then with numbers
        return self.replaces.like(given.gradient, arrived)
