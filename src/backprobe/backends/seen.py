"""Objects that were seen, by identity: they may compare as they like, and are not kept alive."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any
from weakref import ref


class Seen:
    """A set of objects. Another that comes to lie where one of them was is not in it.

    >>> seen = Seen()
    >>> seen.add(len)
    >>> len in seen, max in seen
    (True, False)
    """

    def __init__(self) -> None:
        self.held: MutableMapping[int, ref[Any]] = {}

    def add(self, one: Any) -> None:
        self.held[id(one)] = ref(one)

    def __contains__(self, one: Any) -> bool:
        known = self.held.get(id(one))
        return known is not None and known() is one
