"""Experiments on missing gradients: the program runs again with changed values and bridged cuts.

An experiment that is impossible or shows nothing leaves the report as it is, and if one fails with an error, a note
says so. A finding without a known line may be replaced by findings at proven lines. docs/explain.md explains the
results.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from itertools import takewhile

from backprobe.cuts.missing_edges import Cut, Dataflow
from backprobe.experiments.bridged import Bridged
from backprobe.experiments.flat import Flat
from backprobe.experiments.moved import Moved, with_tried
from backprobe.experiments.runs import Runs, full_names
from backprobe.explain.about_entries import is_said
from backprobe.explain.all_zero import is_zero
from backprobe.explain.cut_findings import line_of_cut
from backprobe.explain.useless import with_zero_everywhere
from backprobe.findings.report import Finding, Report
from backprobe.record.entries import GradStatus, Record
from backprobe.record.quoted_errors import first_line
from backprobe.record.source import place_of

MOST_LINES = 4
"""Cuts are bridged only for findings among this number of first ones in a report."""

NOT_TRIED = "what was found was not tried: the experiment ended with {why}"

__all__ = ["Runs", "experimented", "not_tried"]


def experimented(record: Record, report: Report, asked: int | None, runs: Runs) -> Report:
    """Return a report with the results of experiments: on cuts, on unknown lines, and on gradients of 0.

    ``asked`` is the position of the value that the report is about, or None for a report on the whole record.
    """
    flow = Dataflow.of(record)
    lost = {asked} if asked is not None else _leaves(flow, GradStatus.NOT_CONNECTED)
    findings = _proven(flow, report.findings, runs, lost)
    findings = _found(flow, findings, runs, lost)
    zero = _leaves(flow, GradStatus.OK) if asked is None else {asked}
    everywhere = Flat(runs, [full_names(record)[at] for at in sorted(zero) if _is_zero(flow, at, runs)])
    flat = everywhere.findings()
    if asked is not None and findings:  # these findings already show where the gradient becomes 0
        return replace(report, findings=tuple(with_tried(one, *(flat[0].tried if flat else ())) for one in findings))
    said = {place_of(one.source): one for one in flat}
    known = {place_of(one.source) for one in findings}
    new = [one for one in flat if place_of(one.source) not in known]
    findings = [
        with_tried(one, *said[place_of(one.source)].tried) if place_of(one.source) in said else one for one in findings
    ]
    # findings on the loss come before findings on single gradients
    of_loss = [*takewhile(lambda one: not (one.name or one.lost), findings)]
    findings = [*of_loss, *new, *findings[len(of_loss) :]]
    return with_zero_everywhere(replace(report, findings=tuple(findings)), record, everywhere.found if new else ())


def not_tried(report: Report, error: BaseException) -> Report:
    """The report with a note that an experiment failed."""
    return replace(report, notes=(*report.notes, NOT_TRIED.format(why=f"{type(error).__name__}: {first_line(error)}")))


def _leaves(flow: Dataflow, status: GradStatus) -> set[int]:
    # The values with this gradient status into which no edge leads.
    return {at for at, one in enumerate(flow.entries) if one.status is status and not flow.edges[at]}


def _is_zero(flow: Dataflow, at: int, runs: Runs) -> bool:
    return flow.entries[at].status is GradStatus.OK and is_zero(runs.arrays, flow.entries[at].held_grad)


def _proven(flow: Dataflow, findings: Collection[Finding], runs: Runs, lost: set[int]) -> list[Finding]:
    # The findings. Of the first ``MOST_LINES``, those on cuts also say what came of bridging them, if that showed
    # something.
    cuts = [cut for cut in _cuts(flow, lost) if not cut.is_limited]
    bridged, made = Bridged(flow, runs), list[Finding]()
    for one in findings:
        own = [cut for cut in cuts if line_of_cut(flow, cut) == one.source is not None]
        made.append(with_tried(one, *bridged.tried(own, cuts, lost)) if own and len(made) < MOST_LINES else one)
    return made


def _cuts(flow: Dataflow, lost: set[int]) -> list[Cut]:
    found = dict.fromkeys(cut for at in sorted(lost) for cut in flow.cuts(at))
    return [*dict.fromkeys([*flow.severing(flow.leading), *found])]


def _found(flow: Dataflow, findings: list[Finding], runs: Runs, lost: set[int]) -> list[Finding]:
    # Return the findings. If the cause of a finding has no known line, the program is run again with changed values. If
    # these runs prove the finding's own line, the finding gets the sentences about it. Otherwise, findings on proven
    # lines replace it, and if none of the proven causes has a known line, the finding gets their sentences.
    names, made = full_names(flow.record), list[Finding]()
    first = _without_line(flow, lost)
    for one in findings:
        at = first.get(one.chain[0] if one.chain else one.name)
        moved = Moved(runs, names[at]).findings() if at is not None and not one.tried else []
        if same := [each for each in moved if is_said(each.source, [one])]:
            made.append(with_tried(one, *same[0].tried))
            continue
        placed = [replace(each, consequence=one.consequence) for each in moved if each.source is not None]
        made += placed or [with_tried(one, *(sentence for each in moved for sentence in each.tried))]
    return made


def _without_line(flow: Dataflow, lost: Collection[int]) -> dict[str, int]:
    # Return the positions of lost values whose cutting line is unknown, by the names of these values and of the results
    # that are cut off from them.
    found: dict[str, int] = {}
    for at in sorted(lost):
        cuts = flow.cuts(at) if flow.entries[at].status is GradStatus.NOT_CONNECTED else None
        if cuts is not None and not any(line_of_cut(flow, cut) for cut in cuts):
            for each in (at, *(cut.target for cut in cuts)):
                found.setdefault(flow.entries[each].name, at)
    return found
