"""Why one entry has no gradient: every cause, each with its line."""

from __future__ import annotations

from backprobe.cuts.cuts import Dataflow
from backprobe.explain.about_entries import by_status, merged
from backprobe.explain.cutting import lost_beside
from backprobe.explain.text import say
from backprobe.explain.unconnected import not_connected
from backprobe.explain.user_tapes import none_given
from backprobe.explain.without_history import made_leaves, without_history
from backprobe.findings.report import Report
from backprobe.record.entries import Entry, GradStatus

CUT_BEFORE = (GradStatus.DETACHED, GradStatus.NO_GRAD, GradStatus.FROZEN, GradStatus.NOT_FLOAT, GradStatus.NOT_TENSOR)


def explain_missing(flow: Dataflow, entry: Entry) -> Report:
    """Every cause that keeps a gradient from one entry."""
    at, beside = flow.position[entry.name], []
    if entry.status is GradStatus.NOT_CONNECTED:
        findings = not_connected(flow, at)
        beside = flow.beside(flow.after(at).keys() & flow.leading)
    elif entry.status in CUT_BEFORE:
        findings = without_history(flow, at)
    else:
        findings = [by_status(flow, entry)]
    is_frozen = any(finding.kind in ("frozen", "frozen_leaf") for finding in findings)
    is_otherwise = {GradStatus.FROZEN: not is_frozen, GradStatus.DETACHED: is_frozen}.get(entry.status, False)
    heading = say("missing" if is_otherwise else "missing_because", value=repr(entry.name), status=entry.status,
                  reason=entry.reason)  # fmt: skip
    findings = merged([*findings, *made_leaves(flow)]) + none_given(flow.record, entry.name)
    return Report(heading, tuple(findings), tuple(lost_beside(flow, beside)))
