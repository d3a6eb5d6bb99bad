"""References from one part of a record to its entries: by position, with the printed name beside it for people.

A backend knows the captures that it was given and no entries. It builds the same classes with positions of captures,
and ``tracing.assemble`` puts those of the entries in their place, and the names.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

Position = Annotated[int, "position"]
"""The position of an entry in its record; in what a backend reports, that of a capture among those it was given."""

NAMED_BY = "named_by"


def named_by(position: str) -> dict[str, str]:
    """Metadata of a field with the printed name of the entry to which another field refers; it is never saved."""
    return {NAMED_BY: position}


def names_at(positions: Any, names: Sequence[str]) -> Any:
    """The names at one position, at several, or None for none."""
    if positions is None:
        return None
    return names[positions] if isinstance(positions, int) else tuple([names[at] for at in positions])
