"""Alerts: problems of a training that its run shows, each with the step, the number and the threshold's source.

``run.alerts`` computes them. Rules read the statistics on disk, so they cost the training nothing. An alert about a
step depends only on this step and earlier ones: later steps add alerts, or further names to an alert.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from backprobe.findings.phrasing import plural
from backprobe.findings.report import Report
from backprobe.rules.alert import Alert, line_of
from backprobe.rules.gap import Gap

if TYPE_CHECKING:  # importing backprobe imports no NumPy
    from backprobe.rules.judge import Judge
    from backprobe.storage.runs.merged import RunReader

NO_UPDATES = "updates were not watched: small ones are not noticed, and of large ones only the largest (what='update')"
NO_LOSS = "no loss was logged, so none was checked: run.log(loss=loss)"
TURNS = "optimizers take turns, each with a loss of its own: whether one of these jumps, swings or is flat says nothing"


def alerts(reader: RunReader, until: int | None = None, judge: Judge | None = None) -> Report:
    """The alerts of a run in order of their steps; if ``until`` is given, of the steps up to that one.

    A ``judge`` that was used for the same run before reads only the steps that were added since.
    """
    from backprobe.rules.judge import Judge  # imports NumPy
    from backprobe.rules.ranks import with_ranks
    from backprobe.rules.window import loss_of
    from backprobe.storage.runs.merged import LOGGED

    judge = judge or Judge(reader)
    state = judge.now(until)
    found: list[Alert] = [alert for rule in state.rules for alert in rule.alerts()]
    found.sort(key=lambda one: one.step)
    lines = reader.lines() if found else {}
    found = [one if one.field == LOGGED else replace(one, source=line_of(one.name, lines)) for one in found]
    found = [with_ranks(one, reader) for one in found]
    rows = judge.rows
    has_loss = loss_of(state.logged) is not None
    notes = [NO_UPDATES] * (("update", True) not in rows.groups) + [NO_LOSS] * (not has_loss)
    names = {row.name for row in (*rows.measured, *rows.logged)}
    checked = f"{plural(state.all_count, 'step')} of {plural(len(names), 'name')}"
    heading = plural(len(found), "alert") if found else "no alerts"
    said = [*notes, *[TURNS] * (has_loss and bool(state.takes_turns))]
    return Report(f"{heading}: {checked} were checked", tuple(found), tuple(said), complete=not notes)


__all__ = ["Alert", "Gap", "alerts"]
