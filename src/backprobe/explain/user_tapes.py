"""Gradients that the program asked a tape of its own for, and that came back as None."""

from __future__ import annotations

from collections.abc import Sequence

from backprobe.explain.catalogue import CAUSES
from backprobe.findings.report import Finding
from backprobe.record.entries import Entry, GradStatus, NoneGiven, Record, WhyNone

LISTED = 8
SAID = {
    WhyNone.NO_WAY: "nothing that was recorded leads from it to what was differentiated there",
    WhyNone.UNKNOWN: "the recording does not tell why",
}
OF_THE_PROBE = "the gradient that is recorded is that of the probe's own tape, which records the whole block"


def none_given(record: Record, name: str | None = None) -> list[Finding]:
    """What tapes of the program's own did not give: for one entry, or each cause once for all."""
    entries = record.entries
    groups: dict[object, dict[str, NoneGiven]] = {}
    for one in record.none_given:
        entry = None if one.at is None else entries[one.at]
        is_known = one.why is WhyNone.NO_WAY and entry is not None and entry.status is not GradStatus.OK
        if name in (None, one.name) and not is_known:  # what cuts it off is a finding of its own
            groups.setdefault((one.source, one.why, one.outside), {}).setdefault(one.name, one)
    return [_finding(list(group.values()), entries, record.framework) for group in groups.values()]


def _finding(group: Sequence[NoneGiven], entries: Sequence[Entry], framework: str) -> Finding:
    one, *others = group
    outside = entries[one.outside[-1]] if one.outside else None
    kind = {WhyNone.OUTSIDE: "outside_tape", WhyNone.NOT_WATCHED: "not_watched"}.get(one.why, "none_given")
    line = f"{one.source.file}:{one.source.line}: {one.source.text.strip()}"
    fields = {"value": repr(one.name), "plain": one.name, "reason": SAID.get(one.why, ""),
              "target": "a part of the way to it" if outside is None else repr(outside.name)}  # fmt: skip
    facts = [f"asked for: {line}"]
    if others:
        more = f" and {len(others) - LISTED} more" if len(others) > LISTED else ""
        facts.append(f"the same of {', '.join(other.name for other in others[:LISTED])}{more}")
    if any(other.at is not None and entries[other.at].status is GradStatus.OK for other in group):
        facts.append(OF_THE_PROBE)
    source = one.source if outside is None or outside.source is None else outside.source
    cause = CAUSES[kind]
    return Finding(
        kind, one.name, cause.headline(**fields), source, tuple(facts), (), cause.instead(framework, **fields)
    )
