"""Gradients that the program asked a tape of its own for, and that came back as None."""

from __future__ import annotations

from collections.abc import Sequence

from backprobe.explain.text import finding, say
from backprobe.findings.phrasing import listed, location
from backprobe.findings.report import Finding
from backprobe.record.entries import GradStatus, NoneGiven, Record, WhyNone

CODES = {WhyNone.OUTSIDE: "outside_tape", WhyNone.NOT_WATCHED: "not_watched"}
SAID = {WhyNone.NO_WAY: "no_way", WhyNone.UNKNOWN: "why_unknown"}


def none_given(record: Record, name: str | None = None) -> list[Finding]:
    """What tapes of the program's own did not give: for one entry, or each cause once for all."""
    groups: dict[object, dict[str, NoneGiven]] = {}
    for one in record.none_given:
        entry = None if one.at is None else record.entries[one.at]
        is_known = one.why is WhyNone.NO_WAY and entry is not None and entry.status is not GradStatus.OK
        if name in (None, one.name) and not is_known:  # what cuts it off is a finding of its own
            groups.setdefault((one.source, one.why, one.outside), {}).setdefault(one.name, one)
    return [_finding(list(group.values()), record) for group in groups.values()]


def _finding(group: Sequence[NoneGiven], record: Record) -> Finding:
    one, *others = group
    outside = record.entries[one.outside[-1]] if one.outside else None
    facts = [say("asked_for", at=location(one.source))]
    if others:
        facts.append(say("same_of", names=listed([other.name for other in others])))
    if any(other.at is not None and record.entries[other.at].status is GradStatus.OK for other in group):
        facts.append(say("own_tape"))
    return finding(
        CODES.get(one.why, "none_given"), one.name, (outside and outside.source) or one.source, record.framework,
        facts=facts, value=repr(one.name), plain=one.name, reason=say(SAID[one.why]) if one.why in SAID else "",
        target="a part of the way to it" if outside is None else repr(outside.name),
    )  # fmt: skip
