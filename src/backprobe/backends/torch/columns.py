"""Many captures in columns. Properties that are equal for nearly all captures are tested in C, for all at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain, compress
from operator import and_, attrgetter, gt, itemgetter, ne, not_
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import GradientEdge

from backprobe.backends.torch.capture import Capture, ListenedLeaf
from backprobe.backends.torch.graph import LEAF, Key, all_inputs
from backprobe.backends.torch.later_inputs import LaterInputs
from backprobe.backends.torch.tensors import ORDINARY

FIELDS, RARE = attrgetter("tensor", "alias", "version", "number", "edge", "leaf"), attrgetter("is_rare")
KEY: Any = itemgetter(0, 1)  # returns the key of an edge
FORM, PLACE = attrgetter("shape", "dtype"), Tensor.data_ptr
IS_LEAF, HOOKS, FORMAT = attrgetter("is_leaf"), attrgetter("_backward_hooks"), attrgetter("layout", "is_nested")
STRIDED = {(torch.strided, False)}


@dataclass(eq=False)
class Columns:
    """The attributes of captures, each as a column."""

    captures: Sequence[Capture]
    tensors: Sequence[Tensor]
    aliases: Sequence[Any]
    versions: Sequence[int]
    """The versions of the tensors when they were captured."""

    numbers: Sequence[int]
    edges: Sequence[GradientEdge | None]
    listened: Sequence[ListenedLeaf | None]

    @classmethod
    def of(cls, captures: Sequence[Capture]) -> Columns:
        fields: Any = zip(*map(FIELDS, captures), strict=True) if captures else [()] * 6
        return cls(captures, *fields)

    def where(self, selectors: Iterable[Any]) -> Iterator[int]:
        """Yield the positions at which a selector is true."""
        return compress(range(len(self.captures)), selectors)

    def rare(self) -> list[int]:
        """The positions of the captures that have an attribute which most captures lack."""
        return [*self.where(map(RARE, self.captures))]

    def first_at_edges(self) -> dict[Key, int]:
        """The position of the first capture at each edge: that of a whole tensor, before those of views that were
        written in place and share its edge.
        """
        followed = [*self.where(self.edges)]
        views = {at for at in self.rare() if self.captures[at].geometry is not None}
        if views:
            followed = [at for at in followed if at not in views] + [at for at in followed if at in views]
        followed.reverse()  # a dict keeps the last value of a key, so the first capture must come last
        return dict(zip(map(KEY, map(self.edges.__getitem__, followed)), followed, strict=True))

    def inputs(self, *, later: bool = False) -> Sequence[tuple[int, ...]]:
        """For each capture, the positions of the captures from which it is computed directly. With ``later``, they are
        computed on demand, unless a leaf was captured several times.

        This happens to a leaf that was written in place. Of its captures, the last one before the value counts.
        """
        listened = [*compress(range(len(self.listened)), self.listened)]
        leaves = dict(zip(map(id, map(self.tensors.__getitem__, reversed(listened))), reversed(listened), strict=True))
        versions: dict[int, list[int]] = {}
        for at in listened if len(leaves) < len(listened) else ():
            first = leaves[id(self.tensors[at])]
            if first != at:
                versions.setdefault(first, []).append(at)
        if later and not versions:
            return LaterInputs(len(self.edges), partial(all_inputs, self.edges, self.first_at_edges(), leaves))
        found = all_inputs(self.edges, self.first_at_edges(), leaves)
        for number, sources in enumerate(found if versions else ()):
            latest = {max((at for at in versions.get(one, ()) if at < number), default=one) for one in sources}
            found[number] = tuple(sorted(latest))
        return found

    @cached_property
    def leaves(self) -> list[bool]:
        """Was each tensor a leaf when it was captured? ``detach_()`` may have turned it into a leaf since."""
        found: list[bool] = [*map(IS_LEAF, self.tensors)]
        for at in self.where(map(and_, found, map(bool, self.edges))):
            edge = self.edges[at]
            found[at] = edge is None or edge.node.name() == LEAF
        return found

    def hooked(self) -> list[int]:
        """The positions of captures whose tensors have hooks, not counting the hook of a listened leaf."""
        hooks = [*map(HOOKS, self.tensors)]
        some = [*self.where(hooks)]
        own = map(bool, map(self.listened.__getitem__, some))
        return [*compress(some, map(gt, map(len, filter(None, hooks)), own))]

    @cached_property
    def places(self) -> list[int]:
        """The address of each value in memory."""
        return [*map(PLACE, self.aliases)]

    @cached_property
    def are_plain(self) -> bool:
        """Are all tensors dense, and of types that do not define their own behaviour?"""
        kinds = {*map(type, self.tensors), *map(type, self.aliases)}
        return kinds <= ORDINARY and {*map(FORMAT, self.tensors)} <= STRIDED

    def moved(self) -> list[Capture]:
        """The captures whose tensors may have another address than when they were captured."""
        if not self.are_plain:
            return [*self.captures]
        return [*compress(self.captures, map(ne, map(PLACE, self.tensors), self.places))]

    def values(self, versions: Sequence[int], live: bool) -> list[Any]:
        """The value of each capture; None if ``outcome`` has to determine the value.

        ``versions`` are the present versions of the tensors.
        """
        if not self.are_plain:
            return self._values_of_plain(versions, live)
        found: list[Any] = [*(self.tensors if live else self.aliases)]
        leaves = self.leaves
        forms = map(ne, map(FORM, compress(self.tensors, leaves)), map(FORM, compress(self.aliases, leaves)))
        for at in chain(
            self.where(map(ne, self.versions, versions)),
            self.where(map(not_, self.places)),  # the memory is freed or empty, or the device has none
            compress(self.where(leaves), forms),
            [at for at in self.rare() if self.captures[at].snapshot is not None],
        ):
            found[at] = None
        return found

    def _values_of_plain(self, versions: Sequence[int], live: bool) -> list[Any]:
        plain = [at for at, capture in enumerate(self.captures) if Columns.of([capture]).are_plain]
        some = Columns.of([self.captures[at] for at in plain])
        found = dict(zip(plain, some.values([versions[at] for at in plain], live), strict=True))
        return [found.get(at) for at in range(len(self.captures))]
