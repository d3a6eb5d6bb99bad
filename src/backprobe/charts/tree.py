"""A tree of names by their paths, folded if it is large."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from backprobe.record.names import outside


@dataclass
class TreeNode:
    """A node of the tree: the last part of its path, the run's name for it if there is one, and its children."""

    label: str
    name: str | None = None
    inside: dict[str, TreeNode] = field(default_factory=dict)

    def count(self) -> int:
        return sum(1 + one.count() for one in self.inside.values())


@dataclass(frozen=True)
class Line:
    """A line of the printed tree: a node, its indentation, and how many nodes below it are hidden."""

    label: str
    name: str | None
    depth: int
    hidden: int = 0


def segments(name: str) -> list[str]:
    """Split a name at its dots. The part after a colon is kept whole, such as ``return.1``.

    >>> segments("h.0.attn:return.1"), segments("h.`a.b`")
    (['h', '0', 'attn', 'return.1'], ['h', '`a.b`'])
    """
    read, found, start = outside(name), [], 0
    for at, character in enumerate(name):
        if read[at] and character in ".:":
            found.append(name[start:at])
            start = at + 1
            if character == ":":
                break
    return [*found, name[start:]]


def tree(names: Sequence[str]) -> TreeNode:
    """Build the tree of names: first the return values of the model itself, then all others in the given order."""
    root = TreeNode("")
    results = [name for name in names if name.partition(".")[0] == "return"]
    for name in results:
        root.inside[name] = TreeNode(name, name)
    for name in names:
        if name not in results:
            node = root
            for segment in segments(name):
                node = node.inside.setdefault(segment, TreeNode(segment))
            node.name = name
    return root


def lines(root: TreeNode, most: int) -> list[Line]:
    """The lines of a tree, cut at the greatest depth that fits into ``most`` lines, but never above the first level."""
    depth = 1
    while _size(root, depth) < _size(root, depth + 1) <= most:
        depth += 1
    return list(_lines(root, depth, 0))


def _size(node: TreeNode, depth: int) -> int:
    return sum(1 + _size(one, depth - 1) for one in node.inside.values()) if depth else 0


def _lines(node: TreeNode, left: int, depth: int) -> Iterator[Line]:
    for one in node.inside.values():
        yield Line(one.label, one.name, depth, one.count() if left == 1 else 0)
        if left > 1:
            yield from _lines(one, left - 1, depth + 1)
