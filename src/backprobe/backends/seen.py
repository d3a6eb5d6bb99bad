"""A set of objects by identity, which neither compares the objects nor keeps them alive."""

from __future__ import annotations

from typing import Any
from weakref import ref


class Seen(dict[int, "ref[Any]"]):
    """A set of objects by identity, with weak references. An object later created at the same address is not in the
    set.

    >>> seen = Seen()
    >>> seen.add(len)
    >>> len in seen, max in seen
    (True, False)
    """

    def add(self, one: Any) -> None:
        self[id(one)] = ref(one)

    def __contains__(self, one: Any) -> bool:
        known = self.get(id(one))
        return known is not None and known() is one
