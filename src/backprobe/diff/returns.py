"""The return values of modules and functions: a tensor, or a container of several."""

from __future__ import annotations

from collections import Counter, defaultdict

from backprobe.diff.side import Side
from backprobe.record.entries import GradStatus
from backprobe.record.names import COUNT, partition, split, strip

Call = tuple[str, tuple[str, ...]]
"""A scope without its counts, and the counts."""


def call_of(full: str) -> Call | None:
    """Return the call that returned the value with this name; None if the value was not returned.

    >>> call_of("attn#1:return#0.0"), call_of("attn#1:scores#0")
    (('attn', ('1',)), None)
    """
    scope, local = split(full)
    if local is None or partition(strip(local), ".")[0] != "return":
        return None
    return strip(scope), tuple(COUNT.findall(scope))


class Returned:
    """The return values of each call in a recording."""

    def __init__(self, side: Side) -> None:
        self.side = side
        self.calls: dict[Call, dict[str, int]] = defaultdict(dict)
        for full, at in side.record.names.items():
            call = call_of(full)
            if call is not None:
                self.calls[call][strip(split(full)[1] or "").removeprefix("return")] = at
        self.often = Counter(scope for scope, _ in self.calls)

    def parts(self, call: Call) -> frozenset[str]:
        """The leaves of a call's return value, by the last parts of their names."""
        return frozenset(self.calls.get(call, ()))

    def only(self, call: Call) -> int | None:
        """The only tensor that a call returned; None if there are several or none."""
        own = {at: self.side.entries[at] for at in self.calls.get(call, {}).values()}
        found = {at for at, one in own.items() if not (one.has_no_value or one.status is GradStatus.NOT_TENSOR)}
        return found.pop() if len(found) == 1 else None
