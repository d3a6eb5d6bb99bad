"""Tries remedies for a whole script: it runs again with a line's expression replaced."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from backprobe.explain.text import say
from backprobe.findings.known import Known
from backprobe.findings.report import Finding
from backprobe.probe.bridged_run import BridgedRun, BridgingPlan, Stop
from backprobe.remedies import TrialOutcome, edits_at, edits_keeping, edits_of, said
from backprobe.remedies.candidates import Table
from backprobe.source.bridged_code import Statement
from backprobe.source.edits import Edit

MOST = 6  # the most runs

Runs = Callable[[BridgingPlan, Stop, Sequence[Edit]], BridgedRun | None]
"""Runs the script with edits. Returns None if nothing can be concluded from the run."""


@dataclass
class ScriptRemedies:
    """The remedies of one script. ``names_of`` returns the global names of a file."""

    run: Runs
    names_of: Callable[[str], Mapping[str, Any]]
    table: Table
    left: int = MOST
    passes: int = 0
    loss: float | None = None
    """The loss of the first backward pass in a run without edits."""

    def with_remedy(self, finding: Finding, bridged: BridgedRun, behind: Sequence[Statement]) -> Finding:
        """Return the finding with the edits that restore the most gradients: one edit on the finding's own line, and
        one on each line in ``behind``.

        If all edits that a remedy can mean were tried without success, and no other line was bridged, the remedy is
        removed from the finding. ``bridged`` is the run in which these lines were bridged.
        """
        assert finding.source is not None
        wanted = finding.lost or tuple(bridged.names_arrived())
        others = [self._edits_at(one.file, line)[:1] for one in behind for line in range(one.first, one.last + 1)]
        further = tuple(dict.fromkeys(edit for each in others for edit in each))
        own = edits_of(finding, self._edits_at(os.path.abspath(finding.source.file), finding.source.line))
        if not wanted or len(further) < len(behind):
            return finding
        found, outcomes = self._best(finding, bridged, [(edit, *further) for edit in own], wanted)
        is_known = not {*wanted}.isdisjoint(bridged.names_arrived())  # else no run can tell them by name
        is_false = is_known and bool(own) and not behind and all(one and not one.arrived for one in outcomes)
        return replace(finding, remedy="") if found is finding and is_false else found

    def with_result_kept(self, finding: Finding, as_is: BridgedRun) -> Finding:
        """For a call whose result is not used, return the finding with a name to which the result may be assigned.

        ``as_is`` is a run of the unchanged script.
        """
        assert finding.source is not None
        file = os.path.abspath(finding.source.file)
        edits = edits_keeping(file, finding.source.line, self.names_of(file))
        return self._best(finding, as_is, [(edit,) for edit in edits], finding.lost)[0]

    def _best(
        self, finding: Finding, known: BridgedRun, ways: Sequence[Sequence[Edit]], wanted: Sequence[str]
    ) -> tuple[Finding, Sequence[TrialOutcome | None]]:
        # Return the finding with the edits that restore the most gradients, if any do. Also return the outcomes of the
        # ways that were tried.
        self.passes, self.loss = len(known.losses), known.losses[0]
        best: tuple[Sequence[Edit], TrialOutcome] | None = None
        outcomes: list[TrialOutcome | None] = []
        for edits in ways:
            outcome = self._outcome(edits, wanted)
            outcomes.append(outcome)
            if outcome is not None and len(outcome.arrived) > (len(best[1].arrived) if best else 0):
                best = edits, outcome
                if len(outcome.arrived) == len(wanted):
                    break
        if best is None:
            return finding, outcomes
        edits, outcome = best
        sentence = said(edits, outcome, len(wanted), "loss")  # a remedy that works is better evidence than a bridge
        if Known.NOT_HOW in finding.known and outcome.is_close and len(outcome.arrived) == len(wanted):
            finding = replace(finding, remedy=say("as_tried_next"))  # there is nothing left to ask for
        return replace(finding, tried=(sentence,), edits=tuple(edits) if outcome.is_close else ()), outcomes

    def _edits_at(self, file: str, line: int) -> Sequence[Edit]:
        return edits_at(file, line, self.names_of(file), self.table)

    def together(self, findings: Sequence[Finding]) -> Sequence[Finding]:
        """Return the findings. If several have edits, and these do not work together, only the first finding keeps its
        edits.
        """
        several = [one for one in findings if one.edits]
        if len(several) < 2:
            return findings
        self.left = max(self.left, 1)
        outcome = self._outcome(
            list(dict.fromkeys(edit for one in several for edit in one.edits)),
            [name for one in several for name in one.lost],
        )
        if outcome is not None and outcome.arrived and outcome.is_close:
            return findings
        return [one if one is several[0] else replace(one, edits=()) for one in findings]

    def _outcome(self, edits: Sequence[Edit], wanted: Sequence[str]) -> TrialOutcome | None:
        # Return the outcome of a run with these edits; None if it is not known.
        if not self.left:
            return None
        self.left -= 1
        made = self.run(BridgingPlan(frozenset(), tuple(wanted)), lambda losses: len(losses) >= self.passes, edits)
        if made is None or not made.losses or made.losses[0] is None or self.loss is None:
            return None
        now = made.losses[0]
        is_same = math.isclose(now, self.loss, rel_tol=1e-5, abs_tol=1e-12)
        change = 0.0 if is_same else abs(now - self.loss) / (abs(self.loss) or 1.0)
        return TrialOutcome(made.names_given(), math.inf if math.isnan(change) else change)
