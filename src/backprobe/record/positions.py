"""References to entries of a record: a position for programs, and the printed name for people.

A backend knows captures instead of entries: it builds the same classes with positions of captures. ``tracing.assemble``
converts these to positions of entries and adds the names.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

Position = Annotated[int, "position"]
"""The position of an entry in its record. In data from a backend, it is the position of a capture among all
captures.
"""

NAMED_BY = "named_by"


def named_by(position: str) -> dict[str, str]:
    """Metadata for a field that holds the printed name of the entry whose position is in the field ``position``. The
    name is not saved.
    """
    return {NAMED_BY: position}


def names_at(positions: Any, names: Sequence[str]) -> Any:
    """The name at a position, a tuple of names for several positions, or None for None."""
    if positions is None:
        return None
    return names[positions] if isinstance(positions, int) else tuple([names[at] for at in positions])
