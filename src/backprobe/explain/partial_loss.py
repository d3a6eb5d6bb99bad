"""Lines along which no gradient flows back, beside others along which it does: notes of a report, not findings."""

from __future__ import annotations

from collections.abc import Sequence

from backprobe.cuts.cuts import Dataflow
from backprobe.cuts.mentions import Mention
from backprobe.explain.text import say
from backprobe.findings.phrasing import MOST, quoted
from backprobe.record.entries import Entry


def lost_beside(flow: Dataflow, mentions: Sequence[Mention]) -> list[str]:
    """Lines along which no gradient flows back, beside others along which it does. Often that is intended."""
    lines: dict[str, dict[str, None]] = {}
    for mention in mentions:
        target = flow.entries[mention.target]
        if mention.place is not None or target.source is not None:
            lines.setdefault(part_of_line(mention, target), {})[flow.entries[mention.source].name] = None
    found = [say("lost_beside", at=at, names=quoted(list(names), len(names))) for at, names in lines.items()]
    return found[:MOST] + [say("lost_beside_more", more=len(found) - MOST)] * (len(found) > MOST)


def part_of_line(mention: Mention, target: Entry) -> str:
    """The part of a line that a value is mentioned in, and which line that is."""
    line = mention.place or target.source
    return repr(target.name) if line is None else f"`{mention.use.text or line.text.strip()}` ({line.file}:{line.line})"
