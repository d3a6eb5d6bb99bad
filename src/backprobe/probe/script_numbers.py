"""Examines NaN and Inf in a whole script. The script runs again with its operations observed, first unchanged and then
with remedies.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from backprobe.backends.heard_births import HeardBirth
from backprobe.findings.phrasing import plural
from backprobe.findings.report import Finding, Report
from backprobe.probe.script_experiments import HeardRun, ScriptExperiments
from backprobe.source.edits import Edit

if TYPE_CHECKING:
    from backprobe.remedies.numerics import Cure

RUNS = 12  # the most runs with remedies


def with_numbers(report: Report, again: ScriptExperiments) -> Report:
    """Return the report with numbers for NaN and Inf that arose inside called functions, and with the effect of each
    remedy.
    """
    from backprobe.explain.nonfinite.second_look import lacking, lacking_in_backward  # local import: these need NumPy
    from backprobe.remedies.numerics import is_curable

    return again.safely(
        report,
        lambda report: bool(lacking(report) or lacking_in_backward(report)) or any(map(is_curable, report)),
        lambda report: _heard(report, again),
    )


def _heard(report: Report, again: ScriptExperiments) -> Iterator[Report]:
    from backprobe.explain.nonfinite.second_look import with_heard  # local import: it needs NumPy
    from backprobe.remedies.numerics import with_cures

    as_it_is = again.hearing()
    if as_it_is is None:
        return
    shown = with_heard(report, as_it_is.births)
    yield shown
    yield with_cures(shown, _Trials(again, as_it_is), again.backend.name, again.names_of)


@dataclass
class _Trials:
    # Runs the script with remedies, and compares the runs with a run of the unchanged script.
    again: ScriptExperiments
    before: HeardRun
    left: int = RUNS
    known: dict[tuple[Edit, int | None], HeardRun | None] = field(default_factory=dict)

    def __call__(self, finding: Finding, edit: Edit) -> Cure | str:
        """Return the effect of a remedy on an operation that made NaN or Inf, judging by the operations observed until
        the script was stopped. A text says that the remedy failed; an empty one, that nothing can be said.
        """
        from backprobe.explain.nonfinite.text import say  # local import: it needs NumPy
        from backprobe.remedies.numerics import CLOSE, FAILED, Cure

        count = self.again.passes
        made = self._run(edit, None if self._is_after_backward(finding) else count)
        if made is None or len(made.losses) < count:
            return ""
        losses, heard = made.losses, made.births
        if finding.kind == "born":
            if self._is_still_born(finding, heard):
                return FAILED
        elif not _in_backward(heard) < _in_backward(self.before.births):
            return ""  # the remaining operations may belong to another line
        is_whole = not heard and all(map(_is_finite, losses))
        pairs = list(zip(self.before.losses, losses, strict=False))
        finite = [(was, now) for was, now in pairs if was is not None and now is not None and math.isfinite(was)]
        is_equal = all(math.isclose(was, now, rel_tol=CLOSE, abs_tol=1e-12) for was, now in finite)
        equal = say("losses_equal" if is_equal else "losses_changed") if finite else ""
        said = {"iterations": plural(count, "iteration"), "word": finding.fields.get("word", ""), "equal": equal}
        is_of_kind = bool(said["word"]) and said["word"] not in map(_word, heard) and all(map(_is_finite, losses))
        code = "cured_script" if is_whole else "cured_script_kind" if is_of_kind else "cured_script_here"
        return Cure(say(code, **said), is_whole, is_equal and bool(finite))

    def _is_still_born(self, finding: Finding, heard: Sequence[HeardBirth]) -> bool:
        # Does the line still make NaN or Inf? If it makes the -Inf of a mask, as it did before, that is not the NaN of
        # the finding.
        from backprobe.explain.nonfinite.second_look import is_at  # local import: it needs NumPy

        before = {(one.operation, _word(one)) for one in self.before.births if is_at(finding, one.lines)}
        now = {(one.operation, _word(one)) for one in heard if is_at(finding, one.lines)}
        return not now <= before or finding.fields.get("word", "") in ("", *(word for _, word in now))

    def _is_after_backward(self, finding: Finding) -> bool:
        # Does the NaN or Inf arise in the optimizer's step after the last backward pass? A run that ends with this pass
        # would not show it.
        from backprobe.explain.nonfinite.second_look import is_at  # local import: it needs NumPy

        until = [*self.before.counts, len(self.before.births)][self.again.passes - 1]
        places = [at for at, one in enumerate(self.before.births) if is_at(finding, one.lines)]
        return finding.kind == "born" and bool(places) and places[0] >= until

    def _run(self, edit: Edit, passes: int | None) -> HeardRun | None:
        # Return a run with the edit. It is made only once. None if no runs are left, or if the run failed.
        if (edit, passes) not in self.known:
            self.known[edit, passes] = self.again.hearing([edit], passes) if self.left > 0 else None
            self.left -= 1
        return self.known[edit, passes]


def _in_backward(heard: Sequence[HeardBirth]) -> set[str]:
    # Return the operations that made NaN or Inf in backward, for findings without a line.
    return {one.operation for one in heard if one.is_backward}


def _word(birth: HeardBirth) -> str:
    # Return "NaN" or "Inf", in the words of findings.
    from backprobe.explain.nonfinite.states import WORDS, of_numbers  # local import: it needs NumPy

    return WORDS[of_numbers(birth.result)]


def _is_finite(loss: float | None) -> bool:
    return loss is None or math.isfinite(loss)
