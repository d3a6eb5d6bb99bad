"""The boxes of a recording: the scopes of modules and called functions, nested in each other.

A called function is nested in its caller, and a module in the nearest named module above it in the path.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from backprobe.record.names import partition, split, strip


@dataclass(frozen=True)
class Box:
    """The scope of a module or called function: its full name, the surrounding box, and its depth (from 1)."""

    full: str
    label: str
    around: str | None
    level: int


@dataclass(frozen=True)
class Calls:
    """The calls of modules: the scopes of each path in order, and the positions among all names of each scope's last
    name and last return value.

    Names are in execution order: the names of a module come before the return of the surrounding call.
    """

    of_path: Mapping[str, Sequence[str]]
    ends: Mapping[str, int]
    returns: Mapping[str, int]

    @classmethod
    def of(cls, scopes: Iterable[str], names: Iterable[str]) -> Calls:
        of_path: dict[str, list[str]] = defaultdict(list)
        for scope in scopes:
            if not _is_called(scope):
                of_path[strip(scope)].append(scope)
        ends: dict[str, int] = {}
        returns: dict[str, int] = {}
        for at, name in enumerate(names):
            scope, local = split(name)
            if local is not None:
                ends[partition(scope, "/")[0]] = at
                if is_return(local):
                    returns[scope] = at
        return cls(of_path, ends, returns)

    def around(self, scope: str) -> str | None:
        """The call of the nearest module above a module or parameter; its first call, if it is unknown which. None if
        no module above was called.
        """
        segments = partition(strip(scope), ".")
        for length in range(len(segments) - 1, 0, -1):
            if own := self.of_path.get(".".join(segments[:length])):
                return self._call(own, self.ends.get(scope))
        return None

    def _call(self, own: Sequence[str], ended: int | None) -> str:
        if ended is None or not all(call in self.returns for call in own):
            return own[0]
        later = [call for call in own if self.returns[call] > ended]
        return min(later, key=self.returns.__getitem__, default=own[0])


def boxes_of(names: Mapping[str, int]) -> dict[str, Box]:
    """Every scope that contains a name, and the callers of these scopes, except the root."""
    scopes: dict[str, None] = {}
    for name in names:
        scope, local = split(name)
        if local is not None:
            parts = partition(scope, "/")
            for length in range(1, len(parts) + 1):
                scopes["/".join(parts[:length])] = None
    scopes.pop("", None)
    calls = Calls.of(scopes, names)
    entered = Counter(map(strip, scopes))
    boxes: dict[str, Box] = {}
    for scope in sorted(scopes, key=lambda scope: (len(partition(scope, "/")), len(partition(scope, ".")))):
        around = _around(scope, calls)
        level = boxes[around].level + 1 if around is not None else 1
        own = scope if entered[strip(scope)] > 1 else strip(scope)
        boxes[scope] = Box(scope, _label(own, around), around, level)
    return boxes


def _is_called(scope: str) -> bool:
    # Does the scope belong to a called function, rather than to a module?
    return len(partition(scope, "/")) > 1


def is_return(local: str | None) -> bool:
    """Is this local the return value of a module or function, or a part of one?"""
    return local is not None and partition(strip(local), ".")[0] == "return"


def _around(scope: str, calls: Calls) -> str | None:
    # The box around a scope: for a function its caller, for a module the nearest module above.
    *caller, _ = partition(scope, "/")
    return ("/".join(caller) or None) if caller else calls.around(scope)


def _label(own: str, around: str | None) -> str:
    # The name of a box, relative to the box around it.
    if around is None:
        return own.removeprefix("/")
    return partition(own, "/")[-1] if _is_called(own) else own.removeprefix(strip(around) + ".")


def box_of_each(names: Mapping[str, int], boxes: Mapping[str, Box], size: int) -> tuple[str | None, ...]:
    """The box of each of ``size`` entries: the box of its first name, which it got where it was computed."""
    calls = Calls.of(boxes, ())
    found: dict[int, str | None] = {}
    for name, at in names.items():
        if at not in found:
            scope, local = split(name)
            found[at] = (scope or None) if local is not None else calls.around(name)
    return tuple(found.get(at) for at in range(size))


def returned_by(names: Mapping[str, int], boxes: Mapping[str, Box]) -> dict[str, tuple[int, ...]]:
    """For each box: the entries that the box returns."""
    found: dict[str, dict[int, None]] = {box: {} for box in boxes}
    for name, at in names.items():
        scope, local = split(name)
        if scope in found and is_return(local):
            found[scope][at] = None
    return {box: tuple(positions) for box, positions in found.items()}
