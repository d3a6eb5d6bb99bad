"""Gradients that the program asked a tape of its own for, and that came back as None."""

from __future__ import annotations

from backprobe.explain.about_entries import as_one
from backprobe.explain.text import finding, say
from backprobe.findings.phrasing import location
from backprobe.findings.report import Finding, grouped
from backprobe.record.entries import GradStatus, NoneGiven, Record, WhyNone

CODES = {WhyNone.OUTSIDE: "outside_tape", WhyNone.NOT_WATCHED: "not_watched"}
SAID = {WhyNone.NO_WAY: "no_way", WhyNone.UNKNOWN: "why_unknown"}


def none_given(record: Record, name: str | None = None) -> list[Finding]:
    """What tapes of the program's own did not give: for one entry, or each cause once for all."""
    asked = [one for one in record.none_given if name in (None, one.name) and not _is_explained(record, one)]
    groups = grouped(asked, lambda one: (one.source, one.why, one.outside))
    return [as_one([_finding(record, one) for one in group]) for group in groups]


def _is_explained(record: Record, one: NoneGiven) -> bool:
    """Is what cuts it off a finding of its own?"""
    return one.why is WhyNone.NO_WAY and one.at is not None and record.entries[one.at].status is not GradStatus.OK


def _finding(record: Record, one: NoneGiven) -> Finding:
    outside = record.entries[one.outside[-1]] if one.outside else None
    facts = [say("asked_for", at=location(one.source))]
    if one.at is not None and record.entries[one.at].status is GradStatus.OK:
        facts.append(say("own_tape"))
    return finding(
        CODES.get(one.why, "none_given"), one.name, (outside and outside.source) or one.source, record.framework,
        facts=facts, value=repr(one.name), plain=one.name, reason=say(SAID[one.why]) if one.why in SAID else "",
        target="a part of the way to it" if outside is None else repr(outside.name),
    )  # fmt: skip
