"""NaN and Inf of a whole script: it runs again with its operations heard."""

from __future__ import annotations

from collections.abc import Iterator

from backprobe.backends.heard_births import HeardBirth
from backprobe.findings.report import Report
from backprobe.probe.bridged_run import Enough
from backprobe.probe.script_experiments import ScriptExperiments


def with_numbers(report: Report, again: ScriptExperiments) -> Report:
    """The report, with the numbers at births inside of what a line calls."""
    from backprobe.explain.nonfinite.second_look import lacking  # which imports NumPy

    return again.safely(report, lambda report: bool(lacking(report)), lambda report: _heard(report, again))


def _heard(report: Report, again: ScriptExperiments) -> Iterator[Report]:
    from backprobe.explain.nonfinite.second_look import is_of, lacking, with_heard  # which import NumPy

    wanted, heard = lacking(report), list[HeardBirth]()

    def hear(one: HeardBirth) -> None:
        heard.append(one)
        if all(any(is_of(finding, each) for each in heard) for finding in wanted):
            raise Enough

    again.hearing(hear)
    yield with_heard(report, heard)
