"""Blocks that could not be differentiated: the reason, and the lines that cut off the last computed value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from backprobe.cuts.missing_edges import Dataflow
from backprobe.explain.about_entries import as_one, by_status, is_said, merged
from backprobe.explain.cut_findings import cuts_before
from backprobe.explain.text import finding, say
from backprobe.explain.without_history import hidden_findings
from backprobe.findings.phrasing import listed
from backprobe.findings.report import Finding
from backprobe.record.entries import GradStatus, Record

CODE, RAISED = NOT_DIFFERENTIATED = ("block_not_differentiated", "block_raised")
CUT = (GradStatus.DETACHED, GradStatus.NO_GRAD, GradStatus.NOT_FLOAT, GradStatus.NOT_TENSOR)


def undifferentiated(flow: Dataflow, findings: Sequence[Finding] = ()) -> list[Finding]:
    """Return why the block was not differentiated, after findings on the lines that cut off the last value.

    Lines named in ``findings`` are not repeated. If there are ``findings``, the reason is left out, because they
    explain that there was nothing to differentiate, unless the note on it quotes an error. In a script, the lines that
    cut are enough. Empty if the block was differentiated.
    """
    why = next((note for note in flow.record.notes if note.code == CODE), None)
    if why is None:
        raised = [entry for entry in flow.entries if entry.is_because(RAISED)]
        return [as_one([by_status(flow, entry) for entry in raised])] if raised and not findings else []
    cuts = [cut for cut in last_cut(flow.record) if not is_said(cut.source, findings)]
    if findings and "error" not in why.fields:
        return cuts
    if cuts and flow.record.training is not None:  # in a script, these lines are the reason
        return cuts
    names = [entry.name for entry in flow.entries if entry.is_because(CODE)]
    found = finding(
        "backward_not_run.block",
        next(iter(names), ""),
        None,
        flow.record.framework,
        reason=str(why),
        instead=why.fields["next"],
    )
    return [*cuts, replace(found, consequence=say("values_lost", names=listed(names)) if names else "")]


def is_undifferentiated(record: Record) -> bool:
    """Should the block have been differentiated, but could not be?"""
    return any(note.code == CODE for note in record.notes) or any(entry.is_because(RAISED) for entry in record.entries)


def last_cut(record: Record) -> list[Finding]:
    """Return findings on the lines that cut off the value computed last; empty if nothing cut it off."""
    flow = Dataflow.of(record, has_run=False)
    last = next((at for at in reversed(range(len(flow.entries))) if flow.sources(at)), None)
    if last is None or flow.entries[last].status not in CUT:
        return []
    before = flow.before([last])
    return merged(cuts_before(flow, last, flow.severing(before, {last})) or hidden_findings(flow, before))
