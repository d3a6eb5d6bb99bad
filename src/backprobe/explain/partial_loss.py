"""Lines along which nothing comes back, beside others along which it does: notes of a report, and no findings."""

from __future__ import annotations

from collections.abc import Sequence

from backprobe.cuts.cuts import Mention, Ways
from backprobe.record.entries import Entry

MOST = 8  # lines that are listed


def lost_beside(ways: Ways, mentions: Sequence[Mention]) -> list[str]:
    """Lines along which nothing comes back, beside others along which it does. That is often meant: no finding."""
    lines: dict[str, dict[str, None]] = {}
    for mention in mentions:
        target = ways.entries[mention.target]
        if mention.place is not None or target.source is not None:
            lines.setdefault(place(mention, target), {})[ways.entries[mention.source].name] = None
    found = [f"along {where} nothing comes back to {', '.join(map(repr, names))}: meant, or lost?"
             for where, names in lines.items()]  # fmt: skip
    return found[:MOST] + ([f"and so along {len(found) - MOST} more lines"] if len(found) > MOST else [])


def place(mention: Mention, target: Entry) -> str:
    """The part of a line that a value is mentioned in, and which line that is."""
    line = mention.place or target.source
    if line is None:
        return repr(target.name)
    return f"`{mention.use.text or line.text.strip()}` ({line.file}:{line.line})"
