"""Parts of a program that are computed twice: a checkpoint runs its part once more inside backward.

The second run's values have their names already. It is recorded in a trace of its own, and the two runs of a part,
which name the same values in the same order, are then matched.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Generic, Protocol, Self, TypeVar

from backprobe.backends.capabilities import Recompute
from backprobe.backends.protocol import Tape
from backprobe.tracing.reader import Reader
from backprobe.tracing.values import Transcript, Value


class RecomputableTrace(Protocol):
    """A trace of a program, parts of which may be recomputed."""

    tape: Tape

    def apart(self, is_recording: bool) -> Self:
        """A trace of the same program, for a part that has its names already."""

    def read(self) -> Reader: ...

    def release(self) -> None: ...


T = TypeVar("T", bound=RecomputableTrace)


class Repeats(Generic[T]):
    """The parts of one program that are computed again, and what was named in their first runs."""

    def __init__(self, trace: T) -> None:
        tape = trace.tape
        self.trace, self.recompute = trace, tape if isinstance(tape, Recompute) else None
        self.first: dict[Hashable, Transcript] = {}
        self.again: dict[Hashable, tuple[T, Transcript]] = {}  # runs that are not over yet

    def now(self) -> T:
        """The trace that what is reported now belongs to."""
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
        """The logs for new names: of the first run of a part, and of the second.

        While an outer part is recomputed, a part inside it is in both states: it will be recomputed once more.
        """
        if self.recompute is None:
            return ()
        again = self.again.get(self.recompute.repeated()) if self.again else None
        part = self.recompute.to_be_repeated()
        found = [] if again is None else [again[1]]
        return found if part is None else [*found, self.first.setdefault(part, [])]

    def settle(self) -> None:
        """The repetitions are over: what their values are known by there, those of the first run get."""
        over, self.again = self.again, {}
        for trace in (self.trace, *(repeat for repeat, _ in over.values())) if over else ():
            trace.read()  # one part may lie in another
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
    # The values that have the same names in both runs; none where the runs differ.
    if [(scope, local) for scope, local, _ in first] != [(scope, local) for scope, local, _ in again]:
        return []
    found = []
    for (_, _, slot), (_, _, repeated) in zip(first, again, strict=True):
        by_leaf = dict(repeated)
        found += [(value, by_leaf[leaf]) for leaf, value in slot if leaf in by_leaf]
    return found
