"""A pattern that matches nothing is an error with the nearest names of every kind."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import NoReturn

from backprobe.errors import NothingMatched
from backprobe.record.names import nearest


def refuse_unmatched(
    pattern: str, known: Collection[str], subject: str, spelled: Callable[[str | None], str], why: str = ""
) -> NoReturn:
    """Raise NothingMatched. ``spelled`` says how a probe of the subject is asked for with a pattern, or with none."""
    close = nearest(pattern, known)
    raise NothingMatched(
        f"the pattern {pattern!r} matches nothing in {subject}",
        asked=spelled(pattern),
        found=f"{len(known)} names" + (f", the nearest: {', '.join(close)}" if close else ""),
        why=why,
        next=spelled(close[0]) if close else f"{spelled(None)}, for every name",
    )
