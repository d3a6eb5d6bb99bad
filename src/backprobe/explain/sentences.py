"""What findings about gradients are made of: the catalogue's sentences, filled in, and how several become one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from backprobe.cuts.cuts import Ways
from backprobe.explain.catalogue import CAUSES
from backprobe.findings.report import Finding
from backprobe.record.entries import Entry, GradStatus
from backprobe.record.names import strip
from backprobe.record.reasons import Reason
from backprobe.record.source import Source

LISTED = 8
COUNT = re.compile(r"#\d+")
MODES = {
    "torch.inference_mode()": "under torch.inference_mode()",
    "torch.no_grad()": "under torch.no_grad() or set_grad_enabled(False)",  # which PyTorch does not tell apart
}


def finding_of(
    ways: Ways, kind: str, name: str, source: Source | None, fields: dict[str, Any], *, facts: Sequence[str] = (),
    chain: tuple[str, ...] = (),
) -> Finding:  # fmt: skip
    cause, instead = CAUSES[kind], CAUSES[kind].instead(ways.record.framework, **fields)
    return Finding(kind, name, cause.headline(**fields), source, tuple(facts), chain, instead)


def with_fact(finding: Finding, fact: str) -> Finding:
    return Finding(finding.kind, finding.name, finding.headline, finding.source, (*finding.facts, fact), finding.chain,
                   finding.remedy)  # fmt: skip


def merged(findings: Sequence[Finding]) -> list[Finding]:
    """Findings that say the same of one line, as of each turn of a loop, as one with the names of all."""
    groups: dict[tuple[object, ...], list[Finding]] = {}
    for finding in findings:
        line = finding.source
        place = (line.file, line.line) if line is not None else ()
        is_of_name = line is None or repr(finding.name) in finding.headline
        key = (finding.kind, place, strip(finding.name) if is_of_name else COUNT.sub("", finding.headline))
        groups.setdefault(key, []).append(finding)
    return [_as_one(group) for group in groups.values()]


def _as_one(group: list[Finding]) -> Finding:
    names = list(dict.fromkeys(finding.name for finding in group[1:] if finding.name != group[0].name))
    if not names:
        return group[0]
    shown = ", ".join(names[:LISTED]) + (f" and {len(names) - LISTED} more" if len(names) > LISTED else "")
    return with_fact(group[0], f"the same line does the same to {shown}")


def made_at(entry: Entry) -> str:
    where = entry.source
    return repr(entry.name) + (f" ({where.file}:{where.line}: {where.text.strip()})" if where is not None else "")


def mode_of(why: Reason | None) -> str:
    """The mode in which gradients were switched off, as the framework's adapter noted it."""
    mode = "" if why is None else why.fields.get("mode", "")
    return MODES.get(mode, "while gradients were switched off")


def is_of_whole_numbers(entry: Entry) -> bool:
    """Has its dtype no derivatives, also where nothing else is known of it?"""
    is_floating = entry.dtype is None or entry.dtype.startswith(("float", "bfloat", "complex"))
    return entry.status is GradStatus.NOT_FLOAT or (entry.status is GradStatus.OPAQUE and not is_floating)


def is_returned(ways: Ways, at: int) -> bool:
    """Is it what a module returned?"""
    own = (full for full, position in ways.record.names.items() if position == at)
    return ways.entries[at].source is None and any(strip(full).endswith(":return") for full in own)


def outputs_of(ways: Ways) -> str:
    names = [repr(ways.entries[at].name) for at in ways.record.outputs]
    return ", ".join(names[:LISTED]) or "an output"


def by_status(ways: Ways, entry: Entry) -> Finding:
    kind = str(entry.status)
    instead = "record it where it can be seen: see the reason"
    line = entry.cause or _rewriting(ways, entry) if entry.status is GradStatus.OPAQUE else entry.cause
    if entry.status is GradStatus.OPAQUE and line is not None and not entry.is_because("partly_updated"):
        kind = "overwritten"
    if is_of_whole_numbers(entry):
        kind = "not_float"
    fields = {"value": repr(entry.name), "target": repr(entry.name), "reason": entry.reason, "dtype": entry.dtype,
              "instead": instead}  # fmt: skip
    facts = [entry.reason] if kind == "overwritten" else []
    return finding_of(ways, kind, entry.name, line or entry.source, fields, facts=facts)


def _rewriting(ways: Ways, entry: Entry) -> Source | None:
    """The line that made the next version of a value, where both have one gradient together."""
    alike = (other for other in ways.entries if other.why == entry.why)
    return next((other.source for other in alike if any(way.name == entry.name for way in other.indirect)), None)
