"""Follows the containers that names hold, because a program may put tensors in and take tensors out.

Tensors are recognized by their identity. None of this runs unless a name holds a container that can be changed.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from typing import Any

from backprobe.record.containers import leaves
from backprobe.tracing.log import CHANGED, NO_SITE_AT, UNKNOWN_ITEM
from backprobe.tracing.scope import Scope
from backprobe.tracing.values import OWN
from backprobe.tracing.versions import Versions

MAPPINGS = frozenset({dict, OrderedDict, defaultdict})
MOST = 256
"""The most values in a container that is followed. Larger ones are ignored, because the time to examine a container
grows with its size.
"""


class Contents:
    """The containers that the names of one trace hold."""

    versions: Versions
    events: list[Any]
    inside: dict[int, list[int]]
    """For each container, by identity: the identities of its contents, including those of nested lists and dicts, when
    it was last examined.
    """

    holders: dict[int, dict[tuple[int, str], None]]
    """For each container, by identity: the scopes and names that hold it."""

    def look(self, scope: Scope, at: int, value: Any) -> None:
        """Examine the containers that a statement mentions, because the statement is over and may have changed them.

        A container is let go if the statement has bound its name to another value.
        """
        site = scope.sites[at]
        for key, held in (*scope.held.items(),):
            local = key.partition(OWN)[0]
            if local == site.local and held is not value and local == key:
                self.let_go(scope, key)
            elif local in site.origin.reads or site.local.startswith((f"{local}[", f"{local}.")):
                items, before = [*held] if type(held) is list else [*held.values()], self.inside[id(held)]
                is_flat = MAPPINGS.isdisjoint(kinds := {*map(type, items)}) and list not in kinds
                now = [*map(id, items)] if is_flat else self.deeply(held)
                if now != before and len(before) <= MOST:
                    self._changed(held, now, scope, at)

    def deeply(self, held: Any) -> list[int]:
        """Return the identities of the leaves of a container, including those of nested containers."""
        return [id(item) for _, item in leaves(held)]

    def let_go(self, scope: Scope, *keys: str) -> None:
        """Stop following the containers that these names of a scope held."""
        for key in keys:
            if key in scope.held:
                known = id(scope.held.pop(key))
                holders = self.holders[known]
                holders.pop((scope.number, key), None)
                if not holders:
                    del self.holders[known], self.inside[known]

    def _changed(self, held: Any, now: list[int], scope: Scope, at: int) -> None:
        is_given = not {*self.inside[id(held)]}.issuperset(now)
        self.inside[id(held)] = now
        versions = self.versions
        tensors = [(leaf, item) for leaf, item in leaves(held) if versions.tape.is_tensor(item)]
        numbers = [versions.numbers.get(versions.identity(item), UNKNOWN_ITEM) for _, item in tensors]
        codes = tuple((leaf, number) for (leaf, _), number in zip(tensors, numbers, strict=True))
        for number, key in self.holders[id(held)]:
            self.events += (number, CHANGED, (key, scope.number, at if is_given else NO_SITE_AT, codes))
