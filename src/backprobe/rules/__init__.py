"""Alerts: problems of a training, found in its run, each with its step, its number, and its threshold's source.

``run.alerts`` asks for it. A rule reads the statistics on disk, so that a step pays nothing for it, and what it says
of a step follows from that one and those before: later steps add alerts, and change none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from backprobe.findings.phrasing import plural
from backprobe.findings.report import Report
from backprobe.rules.alert import Alert
from backprobe.rules.gap import Gap

if TYPE_CHECKING:  # importing backprobe imports no NumPy
    from backprobe.storage.runs.merged import RunReader

NO_UPDATES = "updates were not watched: whether they are too large or too small is not known (what='update')"
NO_LOSS = "no loss was logged, so none was checked: run.log(loss=loss)"


def alerts(reader: RunReader, until: int | None = None) -> Report:
    """The alerts of a run, the first first; of its steps up to ``until`` alone, if that is given."""
    from backprobe.rules import (  # which import NumPy
        accumulated,
        depth,
        initial,
        loss,
        nonfinite,
        nothing_left,
        parameters,
        picks,
        precision,
        rounding,
        shares,
        stillness,
        units,
        updates,
    )  # fmt: skip
    from backprobe.rules.history import History

    history = History(reader, until)
    rules = (
        nonfinite,
        initial,
        depth,
        units,
        parameters,
        nothing_left,
        stillness,
        accumulated,
        updates,
        rounding,
        precision,
        shares,
        picks,
        loss,
    )
    found: list[Alert] = [alert for rule in rules for alert in rule.check(history)]
    found.sort(key=lambda one: one.step)
    notes = [NO_UPDATES] * (not history.updates.rows) + [NO_LOSS] * (history.loss is None)
    checked = f"{plural(len(history.all_steps), 'step')} of {plural(len({row.name for row in history.rows}), 'name')}"
    heading = plural(len(found), "alert") if found else "no alerts"
    return Report(f"{heading}: {checked} were checked", tuple(found), tuple(notes), complete=not notes)


__all__ = ["Alert", "Gap", "alerts"]
