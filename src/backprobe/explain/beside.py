"""Lines along which nothing comes back, beside others along which it does: notes of a report, and no findings."""

from __future__ import annotations

from collections.abc import Sequence

from backprobe.cuts import Mention, Ways

MOST = 8  # lines that are listed


def lost_beside(ways: Ways, mentions: Sequence[Mention]) -> list[str]:
    """Lines along which nothing comes back, beside others along which it does. That is often meant: no finding."""
    lines: dict[str, dict[str, None]] = {}
    for mention in mentions:
        target = ways.entries[mention.target]
        line = mention.place or target.source
        if line is not None:
            place = f"`{mention.use.text or line.text.strip()}` ({line.file}:{line.line})"
            lines.setdefault(place, {})[ways.entries[mention.source].name] = None
    found = [f"along {place} nothing comes back to {', '.join(map(repr, names))}: meant, or lost?"
             for place, names in lines.items()]  # fmt: skip
    return found[:MOST] + ([f"and so along {len(found) - MOST} more lines"] if len(found) > MOST else [])
