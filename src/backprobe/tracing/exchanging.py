"""Exchanging lets a program continue with the values and gradients of another program, matched by name.

Unlike with ``replace=``, an exchanged value keeps its history, so gradients flow on through the whole program.
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
    """The NumPy arrays with which the program continues instead of a value and its gradient.

    If one is None, the program's own value or gradient is used. ``number`` identifies the value.
    """

    number: int
    value: Any = None
    gradient: Any = None


@dataclass(frozen=True)
class Exchange(Instead):
    """The values and gradients to exchange, by their names in a program. After the run, also those that were exchanged.

    A name that the program binds once is written without counts. Other names have all their counts.

    ``values`` and ``gradients`` record the exchanges that were made, by number. ``values`` contains True for an
    exchanged value, because the value's entry keeps the original. ``gradients`` contains the original gradient.
    """

    given: Mapping[str, Given]
    values: dict[int, bool] = field(default_factory=dict)
    gradients: dict[int, Any] = field(default_factory=dict)

    def replacing(self, tape: Tape, *, in_function: bool) -> Replacing:
        return Exchanging(self, tape, in_function=in_function)

    def of(self, full: str) -> Given | None:
        """Return the ``Given`` for the value bound to this full name; None if the value is not exchanged."""
        return self.given.get(full) or self.given.get(strip(full))


class Exchanging(ByName):
    """Exchanges values and gradients in one run. A value that cannot be exchanged is left as it is."""

    def __init__(self, exchange: Exchange, tape: Tape, *, in_function: bool) -> None:
        super().__init__(exchange.given, tape, in_function=in_function)
        self.into = exchange
        self.first: dict[int, str] = {}
        """By number, the first name of each exchanged value. When another name is bound, it is bound to the new value
        anyway.
        """

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
        # Return the ``Given`` for a name; None if there is none. A function that is being traced may be traced several
        # times, so calls cannot be counted, and the name is looked up without counts.
        return self.into.given.get(strip(full)) if self.replaces.is_tracing() else self.into.of(full)

    def _can(self, given: Given, full: str, item: Any) -> bool:
        # Can the item be exchanged? It must be a floating-point tensor of the given shape that is computed only once,
        # and this must be its first name.
        if not self._is_floating(item) or self.replaces.runs_again():
            return False
        if self.first.setdefault(given.number, full) != full:
            return False
        numbers = [one for one in (given.value, given.gradient) if one is not None]
        return all(one.shape == tuple(self.tape.describe(item).shape or ()) for one in numbers)

    def _exchanged(self, given: Given, item: Any) -> tuple[Any, int | None]:
        # Return the tensor with which the program continues, and the number under which the original is kept. The
        # number is None if the value was not exchanged.
        made, kept = item, None
        if given.value is not None:
            kept = self._kept(item)
            made = self.replaces.with_numbers(self.replaces.like(given.value, item), item)
            self.into.values[given.number] = True
        if given.gradient is not None:
            made = self.replaces.with_gradient(made, lambda arrived: self._flows_on(given, arrived))
        return made, kept

    def _flows_on(self, given: Given, arrived: Any) -> Any:
        self.into.gradients[given.number] = arrived  # JAX calls this twice: first while tracing, then with numbers
        return self.replaces.like(given.gradient, arrived)
