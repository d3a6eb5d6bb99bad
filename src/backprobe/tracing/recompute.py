"""Matches the two runs of a program's part that is computed twice, as a checkpoint does inside backward.

The values of the second run already have names from the first one. So the second run is recorded in a trace of its own.
Values are matched by the order in which the runs name them. If the names or their order differ, none is matched.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Generic, Protocol, Self, TypeVar

from backprobe.backends.capabilities import Recompute
from backprobe.backends.protocol import Tape
from backprobe.tracing.reader import Reader
from backprobe.tracing.values import Transcript, Value


class RecomputableTrace(Protocol):
    """A trace of a program, if parts of the program may be recomputed."""

    tape: Tape

    def apart(self, is_recording: bool) -> Self:
        """Return another trace of the same program, for a part whose values already have names."""

    def read(self) -> Reader: ...

    def release(self) -> None: ...


T = TypeVar("T", bound=RecomputableTrace)


class Repeats(Generic[T]):
    """The parts of one program that are recomputed, with the names that values got in the first run of each part."""

    def __init__(self, trace: T) -> None:
        tape = trace.tape
        self.trace, self.recompute = trace, tape if isinstance(tape, Recompute) else None
        self.first: dict[Hashable, Transcript] = {}
        self.again: dict[Hashable, tuple[T, Transcript]] = {}  # recomputations that are not over yet

    def now(self) -> T:
        """Return the trace that currently receives the program's reports."""
        if self.recompute is None:
            return self.trace
        part = self.recompute.repeated()
        if self.again and (part is None or part not in self.again):
            self.settle()
        if part is None:
            return self.trace
        if part not in self.again:
            self.again[part] = self.trace.apart(part in self.first), []
        return self.again[part][0]

    def transcripts(self) -> Sequence[Transcript]:
        """Return the transcripts to which new names are added now: that of a first run, that of a recomputation, both,
        or none.

        If checkpoints are nested, both are returned while the outer part is recomputed, because the inner part will be
        recomputed again.
        """
        if self.recompute is None:
            return ()
        again = self.again.get(self.recompute.repeated()) if self.again else None
        part = self.recompute.to_be_repeated()
        found = [] if again is None else [again[1]]
        return found if part is None else [*found, self.first.setdefault(part, [])]

    def settle(self) -> None:
        """End the recomputations. The captures of each first run get the history of the recomputed captures, if both
        runs named the same values in the same order.
        """
        over, self.again = self.again, {}
        for trace in (self.trace, *(repeat for repeat, _ in over.values())) if over else ():
            trace.read()  # recomputed parts may be nested
        for part, (repeat, transcript) in over.items():
            for value, again in _pairs(self.first.get(part, []), transcript):
                captured = value.capture is not None and again.capture is not None
                if captured and self.recompute is not None:
                    self.recompute.computed_again(value.capture, again.capture)
            repeat.release()
            self.first.pop(part, None)

    def release(self) -> None:
        for repeat, _ in self.again.values():
            repeat.release()
        self.first.clear()
        self.again.clear()


def _pairs(first: Transcript, again: Transcript) -> list[tuple[Value, Value]]:
    # Return pairs of values that have the same names in both runs. If the runs differ, return nothing.
    if [(scope, local) for scope, local, _ in first] != [(scope, local) for scope, local, _ in again]:
        return []
    found = []
    for (_, _, slot), (_, _, repeated) in zip(first, again, strict=True):
        by_leaf = dict(repeated)
        found += [(value, by_leaf[leaf]) for leaf, value in slot if leaf in by_leaf]
    return found
