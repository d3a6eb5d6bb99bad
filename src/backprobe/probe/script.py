"""A whole script, run as ``python script.py`` would run it, and a report on the first iteration that matters."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import ModuleType

from backprobe.explain import explain
from backprobe.findings.phrasing import place
from backprobe.findings.report import Report
from backprobe.probe.block import PlainBlock
from backprobe.probe.request import Request
from backprobe.probe.training_loop import Stopped, TrainingLoop
from backprobe.record.entries import Record

STOPPED = "this is iteration {} of those that run backward(); the script was stopped after it"
CLEAN = "no NaN or Inf comes to an output or a gradient: {} values and {} gradients were checked, in {} iterations"
BEFORE = "earlier, in an iteration without backward(): {}{}"
NO_BACKWARD = "no backward() ran"
MOST = 4  # of what was found before


class Script:
    """One run of a script.

    With ``nonfinite=True`` the first iteration with a finding is explained, without it the first that runs
    ``backward()``. Then the script is stopped: what it does afterwards repeats that or follows from it.
    """

    def __init__(self, probe: Request, file: str, arguments: Sequence[str]) -> None:
        self.probe, self.file, self.arguments = probe, file, [file, *arguments]
        self.answer: Report | None = None
        self.before: dict[str, None] = {}  # sentences about what was found where no backward ran
        self.last: Report | None = None  # of what ran without a backward
        self.iterations = self.values = self.gradients = 0

    def run(self) -> None:
        """Run it to its end, or until enough is known. Its errors are raised here, also SystemExit with its status."""
        loop = TrainingLoop(self.probe, os.path.abspath(self.file), self._over)
        with self._as_main() as main:
            code = compile(Path(self.file).read_bytes(), str(main.__file__), "exec", dont_inherit=True)
            try:
                loop.start()
                try:
                    exec(code, vars(main))
                finally:
                    loop.stop()
            except Stopped:
                assert self.answer is not None
                self.answer = replace(self.answer, notes=(STOPPED.format(self.iterations), *self.answer.notes))
            except SystemExit as error:
                if error.code:
                    raise

    @contextmanager
    def _as_main(self) -> Iterator[ModuleType]:
        """The module that the script is, with the arguments and the path that it would have."""
        main = ModuleType("__main__")
        main.__file__ = os.path.abspath(self.file)
        before = sys.argv, list(sys.path), sys.modules["__main__"]
        sys.argv, sys.modules["__main__"] = self.arguments, main
        sys.path.insert(0, str(Path(self.file).resolve().parent))
        try:
            yield main
        finally:
            sys.argv, sys.path[:], sys.modules["__main__"] = before

    def _over(self, block: PlainBlock, error: BaseException | None) -> bool:
        """A part of the script is over. Is enough known?"""
        record = block.recording.record
        if not record.entries:
            return False
        self.iterations += bool(record.outputs)
        if self.probe.options.nonfinite and self._is_clean(record):
            return False
        report = explain(block.recording)
        if record.outputs or error is not None:
            return self._explained(report) and error is None
        self._explained_before(report)
        return False

    def _explained(self, report: Report) -> bool:
        """Take a report for the answer, unless NaN and Inf were asked for and it has none."""
        if self.probe.options.nonfinite and report.ok:
            return False
        self.answer = replace(report, notes=(*report.notes, *self.before))
        return True

    def _explained_before(self, report: Report) -> None:
        """Keep a report on a part that runs no backward: it may be the only one, or the reason for a later one."""
        if self.last is None or self.last.ok:
            self.last = report
        for one in report.of_kind("born")[: MOST - len(self.before)]:
            where = "" if one.source is None else f" ({place(one.source.file, one.source.line)})"
            self.before[BEFORE.format(one.headline, where)] = None

    def _is_clean(self, record: Record) -> bool:
        """Is each value and gradient finite? They are counted."""
        judged = [entry.finiteness for entry in record.entries if entry.finiteness is not None]
        counts = [count for one in judged for count in (one.value, one.grad) if count is not None]
        self.values += sum(one.value is not None for one in judged)
        self.gradients += sum(one.grad is not None for one in judged)
        return all(count.is_finite for count in counts) and not any(one.made for one in judged)

    def report(self) -> Report | None:
        """The report, also on a script that raised; None where nothing was recorded."""
        if self.answer is not None:
            return self.answer
        if self.probe.options.nonfinite and (self.iterations or self.last is None) and self.values:
            heading = CLEAN.format(self.values, self.gradients, self.iterations)
            return Report(heading, (), tuple(self.before))
        return None if self.last is None else replace(self.last, notes=(*self.last.notes, NO_BACKWARD))

    def shown(self, error: BaseException) -> BaseException:
        """An error that the script has raised, with a traceback that begins in the script."""
        step, own = error.__traceback__, os.path.abspath(self.file)
        while step is not None and step.tb_frame.f_code.co_filename != own:
            step = step.tb_next
        return error.with_traceback(step)
