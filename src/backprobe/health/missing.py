"""Parameters that got no gradient at all: in blocks and scripts, of those that the program trains."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from backprobe.findings.phrasing import listed, plural, quoted
from backprobe.findings.report import Finding
from backprobe.record.entries import GradStatus
from backprobe.record.training import Ran

if TYPE_CHECKING:  # it imports NumPy
    from backprobe.health.record_arrays import RecordArrays

LOST = "{} of {} got no gradient"
CLEARED = "{} of {} had no gradient when the optimizer stepped"
UNCALLED = "in modules that were not called: {}"
LACKING = ("missing", "never_called")
REMEDY = "bp.explain(rec), which says why"
MOST = 12  # names


def check(arrays: RecordArrays) -> Iterator[Finding]:
    """One finding for all; its kind is ``never_called`` where all are in modules that were not called."""
    training = arrays.record.training
    if training is None:
        own = [arrays.entries[at] for at in sorted(arrays.graph.parameters)]
        trained = [one for one in own if one.status in (GradStatus.OK, GradStatus.NOT_CONNECTED)]
        yield from _found([one.name for one in trained if one.status is GradStatus.NOT_CONNECTED], len(trained))
    elif training.untrained:
        uncalled = [one.module for one in training.untrained if one.ran is Ran.NOT_CALLED]
        modules = [UNCALLED.format(quoted(list(dict.fromkeys(uncalled)), MOST))] * bool(uncalled)
        kind = "never_called" if len(uncalled) == len(training.untrained) else "missing"
        yield from _found([one.name for one in training.untrained], training.count, LOST, kind, modules)
    else:
        yield from _found(list(training.cleared), training.count, CLEARED)


def _found(
    lost: list[str], count: int, headline: str = LOST, kind: str = "missing", facts: list[str] | None = None
) -> Iterator[Finding]:
    if lost:
        seen = (f"without a gradient: {listed(lost, MOST)}", *(facts or ()))
        said = headline.format(len(lost), plural(count, "parameter"))
        yield Finding(kind, lost[0], said, facts=seen, remedy=REMEDY)
