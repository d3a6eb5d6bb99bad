"""Tries remedies for NaN and Inf: the program runs again with another formula written into its line."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy

from backprobe.backends.protocol import Backend
from backprobe.explain.nonfinite.generic import epsilon_of, nudges, ways
from backprobe.explain.nonfinite.text import say
from backprobe.findings.report import Finding, Report
from backprobe.record.entries import GradStatus, Record
from backprobe.remedies.candidates import FileText
from backprobe.remedies.trials import Again, EditTrials, Explains
from backprobe.source.edits import Edit
from backprobe.source.exchanged import names_of
from backprobe.source.user_code import package

RUNS = 8
"""The most runs with remedies, in addition to the unchanged run with which they are compared."""

CLOSE = 1e-3
"""The largest change of a value that was finite before, relative to its largest number."""

FAILED = "failed"
BORN = ("born", "born_backward")


def is_curable(finding: Finding) -> bool:
    """Is the finding a birth at a line of the program, and no consequence of another finding?"""
    return finding.kind in BORN and finding.source is not None and not finding.cause


def tried_on_births(
    report: Report, framework: str, backend: Backend, again: Again, explains: Explains, runs: int
) -> Report:
    """The report, with the effects of remedies that were tried, and without remedies that cure nothing.

    The program runs at most ``runs`` times. One of these runs is unchanged.
    """
    trials = EditTrials(backend, again, explains, min(RUNS, runs - 1))
    before = _arrays(trials.baseline.record, backend)
    return with_cures(report, partial(_outcome, trials=trials, before=before), framework)


@dataclass(frozen=True)
class Cure:
    """The success of a trial: no NaN or Inf is born at the line any more. ``said`` is a sentence about it.

    ``is_whole`` is True if all compared outputs and gradients are finite. ``is_equal`` is True if some of their numbers
    were finite before, and none of these changed.
    """

    said: str
    is_whole: bool
    is_equal: bool


Tried = Callable[[Finding, Edit], Cure | str]
"""The effect of an edit on a birth: a ``Cure``; FAILED if nothing was cured or the program raised an error; or an empty
text if no trial was possible.
"""


def with_cures(
    report: Report, tried: Tried, framework: str, names: Callable[[str], Mapping[str, Any]] = names_of
) -> Report:
    """The report with the effects of its remedies, according to trials. ``names`` returns the global names
    of a file.
    """
    one_with = partial(_with_cure, tried=tried, framework=framework, names=names)
    return replace(report, findings=tuple(one_with(one) if is_curable(one) else one for one in report))


def _with_cure(finding: Finding, tried: Tried, framework: str, names: Callable[[str], Mapping[str, Any]]) -> Finding:
    formula, instead = (finding.fields.get(name, "") for name in ("formula", "instead"))
    outcomes = {edit: tried(finding, edit) for edit in edits_for(finding, formula, instead, names)}
    for edit, outcome in outcomes.items():
        if isinstance(outcome, Cure):
            return replace(finding, tried=(outcome.said,), edits=(edit,) if outcome.is_whole else ())
    if FAILED in outcomes.values():
        finding = replace(finding, remedy="")
    if finding.remedy:
        return finding
    for part, other in ways(finding.fields.get("part", ""), framework, finding.fields.get("dtype", "")):
        for edit in edits_for(finding, part, other, names):
            outcome = tried(finding, edit)
            if isinstance(outcome, Cure) and outcome.is_whole and outcome.is_equal:
                remedy = say("tried_instead", instead=other, formula=part)
                return replace(finding, remedy=remedy, tried=(outcome.said,), edits=(edit,))
    return _with_nudge(finding, tried, names)


def _with_nudge(finding: Finding, tried: Tried, names: Callable[[str], Mapping[str, Any]]) -> Finding:
    # Return the finding with a new remedy, if exactly one argument in its line can be increased by a rounding error so
    # that everything becomes finite.
    statement, dtype = "" if finding.source is None else finding.source.statement, finding.fields.get("dtype", "")
    outcomes = [
        (value, instead, edit, tried(finding, edit))
        for formula, instead, value in nudges(statement, dtype)
        for edit in edits_for(finding, formula, instead, names)
    ]
    cured = [one for one in outcomes if isinstance(one[3], Cure) and one[3].is_whole]
    if len(cured) != 1 or _is_cured_by_type(finding, cured[0][0], tried, names):
        return finding
    value, instead, edit, outcome = cured[0]
    is_alone = len(outcomes) > 1 and all(other[3] for other in outcomes)
    facts = (*finding.facts, *([say("nudged", value=f"`{value}`", eps=epsilon_of(dtype))] if is_alone else ()))
    remedy = say("tried_instead", instead=instead, formula=edit.what)
    said = outcome.said if isinstance(outcome, Cure) else ""
    return replace(finding, facts=facts, remedy=remedy, tried=(said,), edits=(edit,))


def _is_cured_by_type(finding: Finding, value: str, tried: Tried, names: Callable[[str], Mapping[str, Any]]) -> bool:
    # Does adding 0.0 to the argument cure the line too? That happens if the sum has another dtype than the argument,
    # such as a mask of booleans, which then means something else.
    statement = "" if finding.source is None else finding.source.statement
    return any(
        isinstance(tried(finding, edit), Cure)
        for formula, instead, moved in nudges(statement, finding.fields.get("dtype", ""), "0.0")
        if moved == value
        for edit in edits_for(finding, formula, instead, names)
    )


def _outcome(finding: Finding, edit: Edit, trials: EditTrials, before: Mapping[str, Any]) -> Cure | str:
    trial = trials.run(edit)
    if trial is None or trial.recording is None:
        return "" if trial is None else FAILED
    is_born = any(one.kind in BORN and one.name == finding.name for one in trials.explains(trial.recording))
    return FAILED if is_born else compared(before, _arrays(trial.recording.record, trials.backend))


def compared(before: Mapping[str, Any], after: Mapping[str, Any]) -> Cure | str:
    """Compare outputs and gradients with an unchanged run.

    FAILED if a finite number became NaN or Inf, if a shape changed, or if the runs have no name in common.
    """
    shared, is_equal, was_finite = [name for name in before if name in after], True, False
    for was, now in ((before[name], after[name]) for name in shared):
        if was.shape != now.shape or (numpy.isfinite(was) & ~numpy.isfinite(now)).any():
            return FAILED
        kept = numpy.isfinite(was)
        was_finite |= bool(kept.any())
        scale = float(abs(was[kept]).max()) if kept.any() else 0.0
        is_equal &= not kept.any() or float(abs(was[kept] - now[kept]).max()) <= CLOSE * scale
    if not shared:
        return FAILED
    finite = sum(bool(numpy.isfinite(after[name]).all()) for name in shared)
    code = "cured" if finite == len(shared) else "cured_here"
    equal = say("cured_equal" if is_equal else "cured_changed")
    said = say(code, finite=finite, count=len(shared), equal=equal)
    return Cure(said, code == "cured", is_equal and was_finite)


def _arrays(record: Record, backend: Backend) -> Mapping[str, Any]:
    # The outputs of a run, and the gradients of its inputs, as arrays.
    numbers, found = backend.arrays.numbers, dict[str, Any]()
    for at in record.outputs:
        if (value := numbers(record.entries[at].held)) is not None:
            found[f"output {at}" if len(record.outputs) > 1 else "output"] = value
    for entry in record.entries:
        is_given = not entry.inputs and entry.status is GradStatus.OK
        if is_given and (grad := numbers(entry.grad_or_none)) is not None:
            found[f"gradient of {entry.name}"] = grad
    return found


def edits_for(
    finding: Finding, formula: str, instead: str, names: Callable[[str], Mapping[str, Any]] = names_of
) -> Iterator[Edit]:
    """Edits that replace a formula: its occurrences at the line of a finding, or else its only occurrence
    in the file. There are none in a library, or if the replacement has a name that the file does not have.
    """
    source = finding.source
    if source is None or package(source.file) is not None:
        return
    own = FileText.read(source.file, names(source.file))
    try:
        tree = ast.parse(own.text)
        written = _spelled(ast.parse(instead))
    except SyntaxError:
        return
    if not own.text or not written <= {*own.names, *_spelled(tree)}:
        return
    every = [node for node in ast.walk(tree) if isinstance(node, ast.expr) and ast.unparse(node) == formula]
    here = [node for node in every if _is_at(node, source.line)]
    for node in here or (every if len(every) == 1 else []):
        put = instead if _is_whole(tree, node) else f"({instead})"
        yield Edit(source.file, node.lineno, own.text, ((own.start(node), own.end(node), put),), formula)


def _spelled(tree: ast.Module) -> set[str]:
    # The names in a program, those of parameters included.
    found = (node for node in ast.walk(tree) if isinstance(node, ast.Name | ast.arg))
    return {node.id if isinstance(node, ast.Name) else node.arg for node in found}


def _is_at(node: ast.expr, line: int) -> bool:
    return node.lineno <= line <= (node.end_lineno or node.lineno)


def _is_whole(tree: ast.Module, node: ast.expr) -> bool:
    # Is the formula the whole expression of a statement, or a whole argument? Then its replacement needs no brackets.
    computed = (one for one in ast.walk(tree) if isinstance(one, ast.Assign | ast.Return | ast.keyword))
    calls = (one for one in ast.walk(tree) if isinstance(one, ast.Call))
    return any(node is one.value for one in computed) or any(node in one.args for one in calls)
