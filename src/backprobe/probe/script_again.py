"""A script in which NaN or Inf was found runs once more, and is looked at while they are made.

Of a run that was not recorded with ``nonfinite=True`` the values are known that are still there when an iteration is
over, and nothing of the operations of backward. So where a script may run again, it does so up to where it was stopped.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

from backprobe.findings.report import Report
from backprobe.probe.script import Script
from backprobe.probe.script_experiments import ScriptExperiments
from backprobe.probe.script_numbers import with_numbers
from backprobe.source.main_module import compiled

AGAIN = "the script ran once more up to there, for the values and operations in which NaN and Inf begin"


def looked_at_again(report: Report, script: Script, again: ScriptExperiments) -> Report:
    """The report, with what ``nonfinite=True`` tells in place of what was found of NaN and Inf."""
    from backprobe.explain.nonfinite import is_nonfinite  # which imports NumPy

    if not any(map(is_nonfinite, report)):
        return report
    found = again.safely(report, lambda report: True, lambda report: _looked_at(report, script, again))
    return found if found is report else with_numbers(found, again)


def _looked_at(report: Report, script: Script, again: ScriptExperiments) -> Iterator[Report]:
    from backprobe.explain.nonfinite import is_nonfinite

    assert again.backend.bridges is not None
    second = script.with_nonfinite()
    with again.anew(compiled, {}, again.backend.bridges()) as is_free, suppress(SystemExit):
        if is_free:
            second.run()
    if second.answer is not None and any(map(is_nonfinite, second.answer)):
        others = [one for one in report if not is_nonfinite(one)]
        answer = second.answer
        yield replace(answer, findings=(*answer.findings, *others), notes=(*answer.notes, AGAIN))
