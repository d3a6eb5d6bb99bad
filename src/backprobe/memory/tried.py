"""Tries the remedies of a memory report: runs the script again, with the proposed line in place of the original one."""

from __future__ import annotations

import ast
import os
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import CodeType

from backprobe.backends.side_effects import StoppedAtEffect
from backprobe.findings.phrasing import plural
from backprobe.memory.report import Held, MemoryReport
from backprobe.probe.script_experiments import LONGEST, ScriptExperiments
from backprobe.source.edits import Edit, edited

MOST = 4  # the most lines that are tried
CURED = "tried: run again with this line, {} leave nothing of earlier ones there"
NOT_TRIED = "not tried: run again, the script {}"

Again = Callable[[Callable[[str], CodeType]], MemoryReport | None]
"""Runs the script with this code for its files. Returns None if the script behaves differently from the first run."""


def with_tried(report: MemoryReport, experiments: ScriptExperiments, again: Again) -> None:
    """Try the remedies of a report that are statements, up to ``MOST``, if the script is short and may run again.

    Add the result to each tried remedy, and remove remedies that do not help. If the script runs differently, a remedy
    stays as it is.
    """
    if experiments.seconds > LONGEST or not experiments.may_try():
        return
    found = [*report.held]
    with experiments.as_before():
        for at, held in [(at, one) for at, one in enumerate(found) if _edit(one) is not None][:MOST]:
            found[at] = _tried(held, report.steps, experiments, again)
            report.held = tuple(found)


def _tried(held: Held, steps: int, experiments: ScriptExperiments, again: Again) -> Held:
    edit = _edit(held)
    assert edit is not None
    assert experiments.backend.bridges is not None

    def code(file: str) -> CodeType:
        text = edited(edit.text, [edit]) if os.path.abspath(file) == edit.file else Path(file).read_bytes()
        return compile(text, file, "exec", dont_inherit=True)

    try:
        with ExitStack() as entered:
            is_free = entered.enter_context(experiments.anew(code, {}, experiments.backend.bridges()))
            report = again(code) if is_free else None
    except StoppedAtEffect as stop:
        return replace(held, tried=NOT_TRIED.format(stop.note.fields["effect"]))
    if report is None or report.steps != steps:
        return held
    is_left = any(one.kind == held.kind and one.path == held.path for one in report.held)
    return replace(held, next="") if is_left else replace(held, tried=CURED.format(plural(steps, "step")))


def _edit(held: Held) -> Edit | None:
    # The edit that replaces a line by its remedy; None if the remedy is not a statement, or if the file has another
    # line there now.
    if held.source is None or not held.next or not _is_statement(held.next):
        return None
    try:
        text = Path(held.source.file).read_text()
    except (OSError, UnicodeDecodeError):
        return None
    lines = text.splitlines(keepends=True)
    line = lines[held.source.line - 1]
    if line.strip() != held.source.text:
        return None
    begin = sum(map(len, lines[: held.source.line - 1])) + len(line) - len(line.lstrip())
    piece = begin, begin + len(line.strip()), held.next
    return Edit(os.path.abspath(held.source.file), held.source.line, text, (piece,))


def _is_statement(text: str) -> bool:
    try:
        return len(ast.parse(text).body) == 1
    except SyntaxError:
        return False
