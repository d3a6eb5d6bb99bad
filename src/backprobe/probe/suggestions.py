"""Suggestions for a text in ``of=`` that matches nothing: paths into the return value, and names of values."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

from backprobe.record.containers import at_path
from backprobe.record.names import COUNT, nearest

INDICES = re.compile(r"(?:\[[^\[\]]*\])+$")
READABLE = re.compile(r"(?:\[[\s\d:,.-]+\])*")
ITEM = re.compile(r"""\[(?:["']([^"'\[\]]+)["']|(\d+))\]""")


def alike(of: str, result: Any, paths: Collection[str], names: Collection[str]) -> tuple[list[str], list[str]]:
    """Return texts to type instead, best first, and the most similar names in the program.

    >>> alike("los[0]", {"loss": 1.0}, ["loss"], ["h.0", "h.1"])
    (['loss[0]'], [])
    >>> alike("h[1]", {"loss": 1.0}, ["loss"], ["h.0", "h.1"])
    (['h.1', 'h.0'], ['h.1', 'h.0'])
    """
    base = INDICES.sub("", of)
    behind = of[len(base) :]
    indices = behind if READABLE.fullmatch(behind) else ""
    by_path = ITEM.sub(lambda found: f".{found[1]}" if found[1] else found[0], of).lstrip(".").removeprefix("return.")
    if by_path != of and is_at(result, INDICES.sub("", by_path)):
        return [by_path], []
    inner = [name for name in names if not name.startswith("return")]
    below = _below(COUNT.sub("", base), behind, inner)
    inside = _same_local(base, inner) or below or nearest(base, inner)
    close = [near + indices for near in nearest(base, paths)]
    named = [name + (ITEM.sub("", indices, count=1) if name in below else indices) for name in inside]
    return close or named or list(paths), inside


def _same_local(base: str, names: Collection[str]) -> list[str]:
    asked = COUNT.sub("", base).lstrip(":")
    return [name for name in names if name.lstrip(":") == asked]


def _below(base: str, behind: str, names: Collection[str]) -> list[str]:
    # Return some of the modules directly inside the module ``base``, such as a ModuleList. The module at the index in
    # ``behind`` comes first.
    found = sorted(name for name in names if base and re.fullmatch(re.escape(base) + r"\.[^.:/]+", name))
    item = ITEM.match(behind)
    chosen = f"{base}.{item[1] or item[2]}" if item else ""
    return ([chosen] if chosen in found else []) + [name for name in found if name != chosen][:5]


def is_at(result: Any, path: str) -> bool:
    """Does this path exist in the return value?"""
    try:
        at_path(result, path)
    except KeyError:
        return False
    return True
