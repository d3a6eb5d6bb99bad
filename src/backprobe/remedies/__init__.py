"""Tries remedies before they are printed: the program runs again with an expression in one line edited."""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from backprobe.backends.protocol import Backend
from backprobe.explain.all_zero import is_zero
from backprobe.findings.phrasing import uncommented
from backprobe.findings.report import Finding, Report
from backprobe.record.brief import place
from backprobe.record.entries import GradStatus, Record
from backprobe.record.source import Source
from backprobe.remedies.candidates import FileText, Table, candidates, keeping
from backprobe.remedies.trials import Again, EditTrials, Explains, Trial
from backprobe.source.edits import Edit, edited
from backprobe.source.exchanged import names_of
from backprobe.source.user_code import package

RUNS, DEEP, NEXT = 6, 3, 2
"""The most runs with edits, the most edits in one remedy, and the most further lines that are tried with each edit."""

CLOSE = 1e-3
"""A remedy is written into a patch only if no output changes by more than this share of its largest number."""


@dataclass
class TrialOutcome:
    """The outcome of one run: which of the wanted gradients arrived, and how the outputs changed."""

    arrived: frozenset[str] = frozenset()
    change: float | None = 0.0
    """The largest change of an output, relative to its largest number; None if the outputs cannot be compared."""

    places: Sequence[tuple[str, int]] = ()
    """The lines that cut off gradients or raised an error in this run."""

    has_ended: bool = True

    @property
    def is_close(self) -> bool:
        """Are the outputs unchanged, except for differences up to ``CLOSE``?"""
        return self.change is not None and self.change <= CLOSE


@dataclass
class WantedGradients:
    """The ``wanted`` gradients of one program, and the trials that show which edits bring them."""

    trials: EditTrials
    wanted: Sequence[str]
    known: dict[Trial, TrialOutcome] = field(default_factory=dict)

    def edits_of(self, finding: Finding) -> Sequence[Edit]:
        """The candidate edits for a finding at its line."""
        every = [] if finding.source is None else self.edits_at(finding.source.file, finding.source.line)
        return edits_of(finding, every)

    def edits_at(self, file: str, line: int) -> Sequence[Edit]:
        """The candidate edits at a line of a user's file; none for a file of a library."""
        return edits_at(file, line, names_of(file), self.trials.backend.edits) if package(file) is None else []

    def outcome(self, edits: tuple[Edit, ...]) -> TrialOutcome | None:
        """The outcome of a run with these edits; None if the run is not possible."""
        baseline, trial = self.trials.baseline.record, self.trials.run(*edits)
        if trial is not None and trial not in self.known:
            self.known[trial] = self._outcome(baseline, trial)
        return None if trial is None else self.known[trial]

    def is_tried(self, edit: Edit) -> TrialOutcome | None:
        """The outcome of one edit alone; None if it was not tried."""
        trial = self.trials.known.get((edit,))
        return None if trial is None else self.known.get(trial)

    def _outcome(self, baseline: Record, trial: Trial) -> TrialOutcome:
        if trial.recording is None:
            return TrialOutcome(places=trial.raised, has_ended=False)
        record, backend = trial.recording.record, self.trials.backend
        there = [one for one in record.entries if one.name in self.wanted and one.status is GradStatus.OK]
        arrived = frozenset(one.name for one in there if not is_zero(backend.arrays, one.held_grad))
        places: list[tuple[str, int]] = []
        if len(there) < len(self.wanted):
            found = [one.source for one in self.trials.explains(trial.recording) if one.source is not None]
            places = [(trial.files.get(one.file, one.file), one.line) for one in found]
        return TrialOutcome(arrived, changed(baseline, record, backend), places)


def edits_at(file: str, line: int, names: Mapping[str, Any], table: Table) -> Sequence[Edit]:
    """The candidate edits at a line of a file. ``names`` are the global names of the file's module."""
    text = FileText.read(file, names, table)
    return list(candidates(text, line)) if text.text and names else []


def edits_keeping(file: str, line: int, names: Mapping[str, Any]) -> Sequence[Edit]:
    """The candidate edits at a line of a file that drops the result of a call."""
    text = FileText.read(file, names)
    return list(keeping(text, line)) if text.text and names else []


def edits_of(finding: Finding, every: Sequence[Edit]) -> Sequence[Edit]:
    """The edits of code that the finding mentions; all edits if there are no such edits."""
    parts = finding.fields.values()
    return [one for one in every if one.what and any(one.what in part for part in parts)] or every


def changed(before: Record, after: Record, backend: Backend) -> float | None:
    """The largest change of an output, relative to its largest number; None if the outputs cannot be compared.

    That is the case if their number or a shape differs, or if numbers of an output cannot be read.
    """
    import numpy

    largest, arrays = 0.0, backend.arrays
    if len(before.outputs) != len(after.outputs):
        return None
    for one, other in zip(before.outputs, after.outputs, strict=True):
        was, now = (arrays.numbers(record.entries[at].held) for record, at in ((before, one), (after, other)))
        if was is None or now is None or was.shape != now.shape:
            return None
        if numpy.array_equal(was, now, equal_nan=True) or not was.size:
            continue
        scale = float(numpy.max(numpy.abs(was))) or 1.0
        share = float(numpy.max(numpy.abs(now - was))) / scale
        largest = max(largest, math.inf if math.isnan(share) else share)
    return largest


def wanted_of(record: Record, name: Any) -> list[str]:
    """The names of the missing gradients that a remedy should bring: the requested one, or those of inputs, or all."""
    missing = [one for one in record.entries if one.status is GradStatus.NOT_CONNECTED]
    if name is not None:
        return [one.name for one in missing if name in (one.name, *one.aliases)]
    given = [one for one in missing if not one.inputs]
    return [one.name for one in given or missing]


def tried(
    report: Report, wanted: Sequence[str], backend: Backend, again: Again, explains: Explains, runs: int
) -> Report:
    """The report with tried remedies, and without remedies that cure nothing.

    ``wanted`` are the names of the missing gradients. ``runs`` is the most runs that may be made.
    """
    # one run is reserved for several remedies together
    trials = EditTrials(backend, again, explains, min(RUNS, runs - 1) - 1)
    cuts = WantedGradients(trials, wanted)
    if trials.left < 1 or not any(cuts.edits_of(one) for one in report.findings):
        return report
    found = [_tried(one, cuts) for one in report.findings]
    several = [one for one in found if one.edits]
    if len(several) > 1 and not _together(several, cuts):
        found = [one if one is several[0] else replace(one, edits=()) for one in found]
    report = replace(report, findings=tuple(found))
    return untried(report, trials.refused) if trials.refused and not any(trials.known.values()) else report


def untried(report: Report, why: str) -> Report:
    """The report with a note that says, once, why no remedy was tried."""
    return replace(report, notes=tuple(dict.fromkeys([*report.notes, f"remedies were not tried: {why}"])))


def _together(findings: Sequence[Finding], cuts: WantedGradients) -> bool:
    # Do several remedies work together in one patch?
    every = tuple(dict.fromkeys(edit for one in findings for edit in one.edits))
    if any(_meets(edit, every[:at]) for at, edit in enumerate(every)):
        return False
    cuts.trials.left = max(cuts.trials.left, 1)
    outcome = cuts.outcome(every)
    return outcome is not None and bool(outcome.arrived) and outcome.is_close


def _tried(finding: Finding, cuts: WantedGradients) -> Finding:
    own = cuts.edits_of(finding)
    best: tuple[tuple[Edit, ...], TrialOutcome] | None = None
    for edit in own:
        way = _followed((edit,), cuts)
        if way is not None and way[1].arrived and (best is None or len(way[1].arrived) > len(best[1].arrived)):
            best = way
            if len(way[1].arrived) == len(cuts.wanted):
                break
    if best is None:
        is_false = bool(own) and all(_cures_nothing(edit, cuts) for edit in own)
        is_false = is_false or any(_raises(edit, finding.fields.get("join", ""), cuts) for edit in own)
        return replace(finding, remedy="") if is_false else finding
    edits, outcome = best
    sentence = said(edits, outcome, len(cuts.wanted))
    # an edit proves more than a bridge, so its sentence replaces those about bridges
    return replace(finding, tried=(sentence,), edits=edits if outcome.is_close else ())


def _cures_nothing(edit: Edit, cuts: WantedGradients) -> bool:
    # Was the edit tried without effect, although no other cut remains that could be the reason?
    outcome = cuts.is_tried(edit)
    return outcome is not None and outcome.has_ended and not outcome.places


def _raises(edit: Edit, code: str, cuts: WantedGradients) -> bool:
    # Does the edited line itself raise an error, although it contains the code that the remedy proposes?
    outcome = cuts.is_tried(edit)
    if outcome is None or outcome.has_ended or not code or outcome.places[:1] != [(edit.file, edit.line)]:
        return False
    return code in edited(edit.text, [edit]).split("\n")[edit.line - 1]


def _followed(edits: tuple[Edit, ...], cuts: WantedGradients) -> tuple[tuple[Edit, ...], TrialOutcome] | None:
    # Adds edits of further cutting lines that the run with these edits reveals, until gradients arrive.
    outcome = cuts.outcome(edits)
    if outcome is None or outcome.arrived or len(edits) == DEEP:
        return None if outcome is None else (edits, outcome)
    for file, line in [*dict.fromkeys(outcome.places)][:NEXT]:
        for edit in cuts.edits_at(file, line):
            if not _meets(edit, edits):
                further = _followed((*edits, edit), cuts)
                if further is not None and further[1].arrived:
                    return further
    return edits, outcome


def _meets(edit: Edit, others: Sequence[Edit]) -> bool:
    own = edit.pieces
    taken = [piece for one in others if one.file == edit.file for piece in one.pieces]
    return any(start < there[1] and there[0] < end for start, end, _ in own for there in taken)


def said(edits: Sequence[Edit], outcome: TrialOutcome, wanted: int, result: str = "output") -> str:
    """A sentence about the outcome of a trial. ``result`` is the word for the program's output."""
    lines = [_shown(edit, edits) for edit in edits]
    what = " and ".join(dict.fromkeys(lines))
    arrive = f"{len(outcome.arrived)} of {wanted} missing gradients arrive"
    if wanted == 1:
        arrive = f"the gradient of {min(outcome.arrived)!r} arrives"
    same = f"the {result} is the same"
    if outcome.change is None:
        same = f"the {result} has another shape then"
    elif outcome.change:
        same = f"the {result} changes by up to {outcome.change:.1g} of its largest number"
    return f"{what}: {arrive}; {same}"


def _shown(edit: Edit, edits: Sequence[Edit]) -> str:
    # The edited line. If it is only part of a statement, the replaced pieces instead.
    where, before = place(edit.file, edit.line), edit.text.split("\n")[edit.line - 1].strip()
    line = edited(edit.text, [one for one in edits if one.file == edit.file]).split("\n")[edit.line - 1].strip()
    if _is_statement(line) and _is_statement(before):
        return f"`{uncommented(Source(edit.file, edit.line, line))}` at {where}"
    parts = [(edit.text[start:end].strip(), instead.strip(" ,")) for start, end, instead in sorted(edit.pieces)]
    said = [
        f"without `{old}`" if not new else f"`{new}` in place of `{old}`" if old else f"with `{new}`"
        for old, new in parts
    ]
    return f"{', '.join(said)} at {where}"


def _is_statement(line: str) -> bool:
    try:
        return bool(ast.parse(f"{line} pass" if line.endswith(":") else line).body)
    except SyntaxError:
        return line.startswith("return ") and _is_statement(line.removeprefix("return "))
