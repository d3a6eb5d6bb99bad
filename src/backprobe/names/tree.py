"""Prints names as a tree. A name is a path from the root; braces combine siblings that have the same subtree."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from backprobe.findings.phrasing import WORD, braced, parts
from backprobe.names import text


@dataclass
class NameNode:
    """The names that begin with the same text. ``mark`` is the remark on that text, or None if the text alone is not a
    name. ``below`` are the continuations, by their text.
    """

    mark: str | None = None
    below: dict[str, NameNode] = field(default_factory=dict)


Shape = tuple[str | None, tuple[tuple[str, "Shape"], ...]]


def tree(marks: Mapping[str, str]) -> list[str]:
    """The lines of a tree of names, each with its remark.

    >>> print(*tree({"h.0": "", "h.1": "", "h.0.w": "", "h.1.w": "", "h.0:u": "from source", "head": ""}), sep="\\n")
    ├─ h (path only)
    │  ├─ .0
    │  │  ├─ .w
    │  │  └─ :u (from source)
    │  └─ .1
    │     └─ .w
    └─ head
    """
    root = NameNode()
    for name, mark in marks.items():
        node = root
        for step in _steps(name):
            node = node.below.setdefault(step, NameNode())
        node.mark = mark
    return list(_lines(_shape(root)[1], ""))


def _steps(name: str) -> Iterator[str]:
    # Split a name into its segments, each with the separator before it.
    before = ""
    for part in parts(name):
        if part in ".:/#":
            before += part
        else:
            yield before + part
            before = ""
    if before:
        yield before


def _shape(node: NameNode) -> Shape:
    # A node with its subtree, in which siblings with equal subtrees are combined.
    groups: dict[tuple[str, Shape], list[str]] = {}
    for step, inner in node.below.items():
        word = step.lstrip(".:/#")
        before = step[: len(step) - len(word)] if WORD.fullmatch(word) else step
        groups.setdefault((before, _shape(inner)), []).append(step)
    below = []
    for (before, shape), steps in groups.items():
        label = before + braced([step[len(before) :] for step in steps])
        if shape[0] is None and len(shape[1]) == 1:  # a path with a single continuation
            label, shape = label + shape[1][0][0], shape[1][0][1]
        below.append((label, shape))
    return node.mark, tuple(below)


def _lines(below: tuple[tuple[str, Shape], ...], indent: str) -> Iterator[str]:
    for at, (label, (mark, inner)) in enumerate(below):
        is_last = at == len(below) - 1
        said = text.PATH if mark is None else mark
        yield f"{indent}{'└─' if is_last else '├─'} {label}" + (f" ({said})" if said else "")
        yield from _lines(inner, indent + ("   " if is_last else "│  "))
