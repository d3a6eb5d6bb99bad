"""The modules of a recording, derived from the paths of its parameters, in the order in which they ran."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence, Set
from functools import cached_property

from backprobe.diff.conventions import COLLECTIONS, LAYER, STATE, WEIGHT, role
from backprobe.diff.side import Side
from backprobe.record.names import partition, split, strip

Path = tuple[str, ...]


class ModulePaths:
    """Modules by path, with the positions of their own parameters by the last part of the name."""

    def __init__(self, side: Side) -> None:
        self.side, self.entries = side, side.entries
        self.leaves: dict[Path, dict[str, int]] = defaultdict(dict)
        self.place: dict[int, tuple[Path, str]] = {}
        self.children: dict[Path, list[Path]] = defaultdict(list)
        found = [(at, *one) for full, at in side.record.names.items() for one in _place(full, side, at)]
        layers = {(path, ended[1]) for _, path, leaf in found if (ended := LAYER.search(leaf))}
        several = {path for path, layer in layers if layer != "l0"}
        for at, path, leaf in found:
            # each layer in a PyTorch recurrent module counts as a module of its own
            if path in several and (ended := LAYER.search(leaf)):
                path, leaf = (*path[:-1], "_".join((*path[-1:], ended[1]))), LAYER.sub("", leaf)
            if at not in self.place:
                self.place[at] = path, leaf
                self.leaves[path][leaf] = at
                self._add(path)

    def _add(self, path: Path) -> None:
        for end in range(len(path), 0, -1):
            own = self.children[path[: end - 1]]
            if path[:end] in own:
                return
            own.append(path[:end])

    def role(self, at: int) -> str:
        """The role of a parameter in its layer."""
        path, leaf = self.place[at]
        return role(leaf, self.leaves[path])

    def leaf(self, at: int) -> str:
        """The last part of a parameter's name."""
        return self.place[at][1]

    def cell(self, path: Path) -> Path:
        """The module's only child if the module contains nothing else, as with a Keras cell; else the module."""
        inner = self.children.get(path, ())
        return inner[0] if len(inner) == 1 and path not in self.leaves else path

    def size(self, at: int) -> int:
        return math.prod(self.entries[at].shape or ())

    def below(self, path: Path) -> Iterator[Path]:
        """The modules with parameters of their own at or below this path."""
        if path in self.leaves:
            yield path
        for child in self.children.get(path, ()):
            yield from self.below(child)

    def held(self, paths: Set[Path]) -> Mapping[Path, set[Path]]:
        """For each module without parameters of its own, the modules among ``paths`` that it contains."""
        found: dict[Path, set[Path]] = {}
        for path in (child for each in self.children.values() for child in each):
            if path not in self.leaves:
                found[path] = {one for one in self.below(path) if one in paths}
        return found

    def weight(self, path: Path) -> int:
        """The number of elements in the weights at or below a path, or in all parameters there if none is a weight. It
        does not depend on layout and packing.
        """
        each = [(at, self.role(at)) for one in self.below(path) for at in self.leaves[one].values()]
        weights = sum(self.size(at) for at, name in each if name.endswith("weight"))
        return weights or sum(self.size(at) for at, _ in each)

    def largest(self, path: Path) -> int:
        """The parameter with the most elements at or below a path."""
        return max((at for one in self.below(path) for at in self.leaves[one].values()), key=self.size)

    def signature(self, path: Path) -> object:
        """Return a key for a module's own parameters that does not depend on names and layout."""
        each = sorted((self.role(at), self.size(at)) for at in self.leaves[path].values())
        is_cell = any(name == STATE + WEIGHT for name, _ in each)  # a cell has one bias, or two that are added
        return tuple(one for one in each if not is_cell or one[0].endswith(WEIGHT))

    @cached_property
    def executed(self) -> Mapping[Path, int]:
        """For each module, the position of its first value in the order of execution."""
        found: dict[Path, int] = {}
        for full, at in self.side.record.names.items():
            if at in self.place:
                continue
            path = module_path(split(full)[0])
            for end in range(len(path) + 1):
                found.setdefault(path[:end], at)
        return found

    def in_order(self, paths: Sequence[Path]) -> list[Path]:
        """The modules in the order in which they ran if that is known for all, else in the given order."""
        return sorted(paths, key=self.executed.__getitem__) if set(paths) <= self.executed.keys() else list(paths)


def module_path(scope: str) -> Path:
    """The segments of a module's path, from the scope of a value in it.

    >>> module_path("h.3.attn#1/helper#0"), module_path("/helper#0")
    (('h', '3', 'attn'), ())
    """
    path = strip(partition(scope, "/")[0])
    return tuple(partition(path, ".")) if path else ()


def _place(full: str, side: Side, at: int) -> Iterator[tuple[Path, str]]:
    # Yield the path and the last part of a parameter's name, also for leaves of an argument that is a dictionary of
    # parameters.
    scope, local = split(full)
    if local is None:
        *path, leaf = partition(strip(full), ".")
    elif not scope and side.graph.is_given(at) and len(parts := partition(strip(local), ".")) > 2:
        *path, leaf = [one for part in parts[1:] for one in part.strip("`").split("/") if one != "~"]
    else:
        return
    yield tuple(path[1:] if path and path[0] in COLLECTIONS else path), leaf
