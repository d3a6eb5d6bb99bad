"""Why an entry of a recording has no gradient: what cut the way to the output, at which line."""

from __future__ import annotations

from backprobe.cuts.cuts import Ways
from backprobe.explain.partial_loss import lost_beside
from backprobe.explain.sentences import by_status, merged
from backprobe.explain.unconnected import not_connected
from backprobe.explain.user_tapes import none_given
from backprobe.explain.without_history import made_leaves, without_history
from backprobe.findings.report import Report
from backprobe.record.entries import Entry, GradStatus

CUT_BEFORE = (GradStatus.DETACHED, GradStatus.NO_GRAD, GradStatus.FROZEN, GradStatus.NOT_FLOAT, GradStatus.NOT_TENSOR)
FROZEN = ("frozen", "frozen_leaf")


def explain_missing(ways: Ways, entry: Entry) -> Report:
    """Every cause that keeps a gradient from one entry."""
    at = ways.position[entry.name]
    if entry.status is GradStatus.NOT_CONNECTED:
        findings = not_connected(ways, at)
    elif entry.status in CUT_BEFORE:
        findings = without_history(ways, at)
    else:
        findings = [by_status(ways, entry)]
    heading = f"{entry.name!r} has no gradient ({entry.status})"
    is_frozen = any(finding.kind in FROZEN for finding in findings)
    is_otherwise = {GradStatus.FROZEN: not is_frozen, GradStatus.DETACHED: is_frozen}.get(entry.status, False)
    heading += "" if is_otherwise else f": {entry.reason}"
    beside = ways.beside(ways.after(at).keys() & ways.leading) if entry.status is GradStatus.NOT_CONNECTED else []
    findings = merged([*findings, *made_leaves(ways)]) + none_given(ways.record, entry.name)
    return Report(heading, tuple(findings), tuple(lost_beside(ways, beside)))
