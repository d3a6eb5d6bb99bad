"""If NaN or Inf was found in a script, runs the script again to observe the operations that make them.

Without ``nonfinite=True``, only values that still exist at the end of an iteration are known, and nothing about the
operations of backward. So the script runs again up to where it was stopped, if that is possible.
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
    """Return the report. If it has findings about NaN and Inf, and another run with ``nonfinite=True`` has such
    findings as well, these replace them.
    """
    from backprobe.explain.nonfinite import is_nonfinite  # local import: it needs NumPy

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
