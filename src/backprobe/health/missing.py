"""Parameters without any gradient. In blocks and scripts, only parameters that the program trains."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from backprobe.findings.phrasing import listed, plural, quoted
from backprobe.findings.report import Finding
from backprobe.record.entries import GradStatus
from backprobe.record.training import ModuleRan

if TYPE_CHECKING:  # importing backprobe must not import NumPy
    from backprobe.health.record_arrays import RecordArrays

LACKING = ("missing", "never_called")
MOST = 12  # the largest number of names in the text


def check(arrays: RecordArrays) -> Iterator[Finding]:
    """Yield one finding for all parameters without a gradient, if there are any. Its kind is ``never_called`` if all of
    them are in modules that were not called.
    """
    training, said = arrays.record.training, "got no gradient"
    uncalled: list[str] = []
    if training is None:
        states = {(one := arrays.entries[at]).name: one.status for at in sorted(arrays.graph.parameters)}
        lost = [name for name, status in states.items() if status is GradStatus.NOT_CONNECTED]
        count = len(lost) + sum(status is GradStatus.OK for status in states.values())
    else:
        lost, count = [one.name for one in training.untrained], training.count
        uncalled = [one.module for one in training.untrained if one.ran is ModuleRan.NOT_CALLED]
        if not lost:
            lost, said = list(training.cleared), "had no gradient when the optimizer stepped"
    if lost:
        facts = [f"without a gradient: {listed(lost, MOST)}"]
        if uncalled:
            facts.append(f"in modules that were not called: {quoted(list(dict.fromkeys(uncalled)), MOST)}")
        kind = LACKING[len(uncalled) == len(lost)]
        headline = f"{len(lost)} of {plural(count, 'parameter')} {said}"
        yield Finding(kind, lost[0], headline, facts=tuple(facts), remedy="bp.explain(rec), which says why")
