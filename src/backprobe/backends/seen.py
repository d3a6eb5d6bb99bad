"""Objects that were seen, by identity: they are not compared, and not kept alive."""

from __future__ import annotations

from typing import Any
from weakref import ref


class Seen(dict[int, "ref[Any]"]):
    """A set of objects, known by identity without being held. A later object at the same address is not in it.

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
