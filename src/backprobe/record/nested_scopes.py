"""The boxes of a recording: the scopes of modules and called functions, each within the one around it.

A called function lies in its caller, a module in the nearest module around its path that has a name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from backprobe.record.names import partition, split, strip


@dataclass(frozen=True)
class Box:
    """The scope of a module or called function: its full name, the box around it, and how deep it lies (from 1)."""

    full: str
    label: str
    around: str | None
    level: int


def boxes_of(names: Mapping[str, int]) -> dict[str, Box]:
    """Every scope that a name lies in, and every caller of one."""
    scopes: dict[str, None] = {}
    for name in names:
        scope, local = split(name)
        if local is not None:
            parts = partition(scope, "/")
            for length in range(1, len(parts) + 1):
                scopes["/".join(parts[:length])] = None
    scopes.pop("", None)
    modules = _modules(scopes)
    entered = Counter(map(strip, scopes))
    boxes: dict[str, Box] = {}
    for scope in sorted(scopes, key=lambda scope: (len(partition(scope, "/")), len(partition(scope, ".")))):
        around = _around(scope, modules)
        level = boxes[around].level + 1 if around is not None else 1
        own = scope if entered[strip(scope)] > 1 else strip(scope)
        boxes[scope] = Box(scope, _label(own, around), around, level)
    return boxes


def _modules(scopes: Iterable[str]) -> dict[str, str]:
    """The scope of each module by its path; the first where a module was entered more than once."""
    return {strip(scope): scope for scope in reversed(list(scopes)) if not _is_called(scope)}


def _is_called(scope: str) -> bool:
    """Is it the scope of a called function, and not a module's?"""
    return len(partition(scope, "/")) > 1


def _around(scope: str, modules: Mapping[str, str]) -> str | None:
    """The box around a scope: the caller of a function, the nearest module above a module."""
    *caller, _ = partition(scope, "/")
    if caller:
        return "/".join(caller) or None
    return _enclosing_module(strip(scope), modules)


def _enclosing_module(path: str, modules: Mapping[str, str]) -> str | None:
    """The scope of the nearest module above a path."""
    segments = partition(path, ".")
    for length in range(len(segments) - 1, 0, -1):
        above = modules.get(".".join(segments[:length]))
        if above is not None:
            return above
    return None


def _label(own: str, around: str | None) -> str:
    """What a box is called within the one around it."""
    if around is None:
        return own.removeprefix("/")
    return partition(own, "/")[-1] if _is_called(own) else own.removeprefix(strip(around) + ".")


def box_of_each(names: Mapping[str, int], boxes: Mapping[str, Box], size: int) -> tuple[str | None, ...]:
    """The box of each of ``size`` entries: that of its first name, which it got where it was computed."""
    modules = _modules(boxes)
    found: dict[int, str | None] = {}
    for name, at in names.items():
        if at not in found:
            scope, local = split(name)
            found[at] = (scope or None) if local is not None else _enclosing_module(name, modules)
    return tuple(found.get(at) for at in range(size))


def returned_by(names: Mapping[str, int], boxes: Mapping[str, Box]) -> dict[str, tuple[int, ...]]:
    """By box: the entries that it returns."""
    found: dict[str, dict[int, None]] = {box: {} for box in boxes}
    for name, at in names.items():
        scope, local = split(name)
        if scope in found and local is not None and partition(strip(local), ".")[0] == "return":
            found[scope][at] = None
    return {box: tuple(positions) for box, positions in found.items()}
