"""Runs the second program on values of the first, and makes a recording as if each segment had run alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from backprobe.diff.comparison import Comparison, Given
from backprobe.findings.phrasing import listed, plural
from backprobe.record.entries import Entry, Record
from backprobe.record.names import strip
from backprobe.tracing.exchanging import Exchange
from backprobe.tracing.exchanging import Given as Goes

MOST = 4  # number of names in a note


class Isolation:
    """The values and gradients of the first recording that replace those of the second, for each pair that differs.

    Pairs that agree are not replaced. Neither are arguments and parameters, from which the program starts, its outputs,
    entries that are computed several times at once, and pairs of an entry that has another partner already.
    """

    def __init__(self, comparison: Comparison) -> None:
        self.comparison, self.record = comparison, comparison.b.record
        self.names: dict[int, str] = {}
        self.rounded: set[int] = set()
        """Values that are rounded when the second program continues with them in its own dtype."""
        found = {comparison.pairs[at].b: self._goes(at) for at in self._differing()}
        bound = Counter(map(strip, self.record.names))
        self.exchange = Exchange(
            {
                full if bound[strip(full)] > 1 else strip(full): found[at]
                for full, at in self.record.names.items()
                if at in found and (found[at].value is not None or found[at].gradient is not None)
            }
        )

    def _differing(self) -> Iterator[int]:
        for at, row in enumerate(self.comparison.rows):
            is_inner = row.match.b not in self.record.outputs and not (
                self.comparison.is_leaf(at) or row.match.is_shared or row.a.axes or row.b.axes
            )
            if is_inner and (row.value.kind or row.gradient.kind):
                yield at

    def _goes(self, at: int) -> Goes:
        row = self.comparison.rows[at]
        value = self._array(row.a, row.a.held) if row.value.kind else None
        gradient = self._array(row.a, row.a.grad_or_none) if row.gradient.kind else None
        if gradient is not None and self.comparison.factor:
            gradient = gradient / self.comparison.factor
        self.names[row.match.b] = row.a.name
        self.rounded |= {row.match.b} if self.comparison.is_cast(at) else set()
        return Goes(row.match.b, *(self.comparison.as_in_second(at, one) for one in (value, gradient)))

    def _array(self, entry: Entry, tensor: Any) -> Any:
        arrays = self.comparison.arrays[0]
        return arrays.array(tensor) if arrays.is_tensor(tensor) else None

    def isolated(self, again: Record) -> tuple[Record, Given]:
        """Return the recording of the run with replaced values, with the values that each segment itself computed.

        Also returns the positions of the values and of the gradients that were replaced by those of the first
        recording, without values that were rounded.
        """
        numbers = {at: found.number for full, at in again.names.items() if (found := self.exchange.of(full))}
        arrived = {
            at: self.exchange.gradients[number]
            for at, number in numbers.items()
            if number in self.exchange.gradients and again.entries[at].replaced_grad
        }
        values = {at for at, number in numbers.items() if again.entries[at].replaced and number not in self.rounded}
        entries = [self._own(entry, arrived.get(at)) for at, entry in enumerate(again.entries)]
        return replace(again, entries=tuple(entries)), (values, arrived.keys())

    @staticmethod
    def _own(entry: Entry, arrived: Any) -> Entry:
        # Return an entry with the value and gradient that its own lines computed, before they were replaced.
        value = entry.held_original if entry.replaced else entry.held_value
        gradient = entry.held_grad if arrived is None else arrived
        return replace(entry, held_value=value, held_grad=gradient) if entry.replaced or arrived is not None else entry

    def notes(self) -> Sequence[str]:
        """Return notes on what was replaced, and on what could not be."""
        done = self.exchange
        said = (
            f"the second went on with {plural(len(done.values), 'value')} and "
            f"{plural(len(done.gradients), 'gradient')} of the first: none of these errors is passed on"
        )
        given = {one.number: one for one in done.given.values()}
        missed = [
            self.names[number]
            for number, one in given.items()
            if (one.value is not None and number not in done.values)
            or (one.gradient is not None and number not in done.gradients)
        ]
        return [said, *([f"went on as they were: {listed([repr(name) for name in missed], MOST)}"] if missed else [])]
