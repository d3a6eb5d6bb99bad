"""What a program computes again: a checkpoint that keeps nothing runs its part once more inside backward.

What is named the second time has its names already. It is recorded apart, in a trace of its own, and the two runs of a
part, which name the same in the same order, are then laid beside each other.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING

from backprobe.tracing.scope import Log, Value

if TYPE_CHECKING:
    from backprobe.tracing.trace import Trace


class Repeats:
    """The parts of one program that are computed again, and what was named in their first runs."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.first: dict[Hashable, Log] = {}
        self.again: dict[Hashable, tuple[Trace, Log]] = {}  # runs that are not over yet

    def now(self) -> Trace:
        """The trace that what is reported now belongs to."""
        part = self.trace.tape.repeated()
        if part is None or part not in self.again:
            self.settle()
        if part is None:
            return self.trace
        if part not in self.again:
            self.again[part] = self.trace.apart(part in self.first), []
        return self.again[part][0]

    def logs(self) -> Sequence[Log]:
        """Where what is named now is to be noted: in the first run of a part, and in the second.

        A part within a part is both while the outer one is computed again: it will be, once more.
        """
        again, part = self.again.get(self.trace.tape.repeated()), self.trace.tape.to_be_repeated()
        logs = [] if again is None else [again[1]]
        return logs if part is None else [*logs, self.first.setdefault(part, [])]

    def settle(self) -> None:
        """The repetitions are over: what their values are known by there, those of the first run get."""
        over, self.again = self.again, {}
        for part, (repeat, log) in over.items():
            for value, again in _pairs(self.first.get(part, []), log):
                if value.capture is not None and again.capture is not None and value is not again:
                    self.trace.tape.computed_again(value.capture, again.capture)
            repeat.release()
            self.first.pop(part, None)

    def release(self) -> None:
        for repeat, _ in self.again.values():
            repeat.release()
        self.first.clear()
        self.again.clear()


def _pairs(first: Log, again: Log) -> list[tuple[Value, Value]]:
    """The values that have the same names in both runs; none where the runs differ."""
    if [(scope, local) for scope, local, _ in first] != [(scope, local) for scope, local, _ in again]:
        return []
    found = []
    for (_, _, slot), (_, _, repeated) in zip(first, again, strict=True):
        by_leaf = dict(repeated)
        found += [(value, by_leaf[leaf]) for leaf, value in slot if leaf in by_leaf]
    return found
