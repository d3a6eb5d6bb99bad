"""NaN and Inf of a whole script: it runs again with its operations heard, and with remedies written into its lines."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from types import CodeType

from backprobe.backends.heard_births import HeardBirth
from backprobe.errors import BackprobeError
from backprobe.findings.phrasing import plural
from backprobe.findings.report import Finding, Report
from backprobe.probe.bridged_run import Enough
from backprobe.probe.script import Script
from backprobe.probe.script_experiments import ScriptExperiments
from backprobe.probe.training_loop import Part
from backprobe.source.edits import Edit, edited
from backprobe.source.main_module import compiled

MOST = 4  # runs with remedies


class Edited(Script):
    """Another run of a script, with edits of its text and those of its modules, up to as many iterations."""

    def __init__(self, script: Script, edits: Sequence[Edit]) -> None:
        super().__init__(script.probe, script.file, script.arguments[1:], script.judge, spec=script.spec)
        self.edits, self.most, self.code_of = edits, script.iterations, self.code

    def code(self, file: str) -> CodeType:
        """The code of a file. Raises SyntaxError."""
        own = [one for one in self.edits if os.path.abspath(one.file) == os.path.abspath(file)]
        return compile(edited(own[0].text, own), file, "exec", dont_inherit=True) if own else compiled(file)

    def _over(self, block: Part, error: BaseException | None) -> bool:
        is_over = super()._over(block, error)
        if not is_over and self.iterations >= self.most:
            self.answer = super().report()
            return True
        return is_over


class ScriptNumbers:
    """The runs of one script whose numbers were found to be NaN or Inf."""

    def __init__(self, script: Script, again: ScriptExperiments) -> None:
        self.script, self.again, self.left = script, again, MOST

    def with_tried(self, report: Report) -> Report:
        """The report, with the numbers at births inside of what a line calls, and what its remedies have cured."""
        return self.again.safely(report, self._tries)

    def _tries(self, report: Report) -> Iterator[Report]:
        from backprobe.remedies.numerics import is_curable  # which imports NumPy

        report = self._heard(report)
        yield report
        for at, one in enumerate(report.findings):
            if is_curable(one):
                report = replace(report, findings=(*report.findings[:at], self._tried(one), *report.findings[at + 1 :]))
                yield report

    def _heard(self, report: Report) -> Report:
        from backprobe.explain.nonfinite.second_look import is_of, lacking, with_heard  # which import NumPy

        wanted, heard = lacking(report), list[HeardBirth]()

        def hear(one: HeardBirth) -> None:
            heard.append(one)
            if all(any(is_of(finding, each) for each in heard) for finding in wanted):
                raise Enough

        if wanted:
            self.again.hearing(hear)
        return with_heard(report, heard)

    def _tried(self, finding: Finding) -> Finding:
        # With the first of the edits that its remedy can mean which leaves no NaN or Inf; without a remedy that fails.
        from backprobe.remedies.numerics import edits_for

        has_failed = False
        for edit in edits_for(finding, finding.fields.get("formula", ""), finding.fields.get("instead", "")):
            run = self._run(edit)
            report = None if run is None else run.report()
            if run is None or report is None:
                continue
            if report.ok and run.iterations >= self.script.iterations:
                return replace(finding, tried=(_said(run),), edits=(edit,))
            has_failed |= any(one.kind == finding.kind and one.source == finding.source for one in report)
        return replace(finding, remedy="") if has_failed else finding

    def _run(self, edit: Edit) -> Edited | None:
        # None where it raised an error, or cannot be made.
        if not self.left or time.monotonic() > self.again.until or self.again.backend.bridges is None:
            return None
        self.left -= 1
        run = Edited(self.script, [edit])
        with self.again.anew(run.code, {}, self.again.backend.bridges()) as is_free:
            if not is_free:
                return None
            try:
                run.run()
            except (BackprobeError, SystemExit):
                return None
            except Exception:  # noqa: BLE001  the edited script may raise anything
                return None
        return run


def _said(run: Edited) -> str:
    from backprobe.explain.nonfinite.text import say  # which imports NumPy

    counts = {"values": plural(run.values, "value"), "gradients": plural(run.gradients, "gradient")}
    return say("cured_script", iterations=plural(run.iterations, "iteration"), **counts)
