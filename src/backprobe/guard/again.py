"""The failing call run again under a probe, and explained."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from backprobe.backends.facts import Options
from backprobe.backends.guards import NotTheSame, Repeatable, again
from backprobe.backends.protocol import Backend
from backprobe.findings.report import Report
from backprobe.record.entries import Record
from backprobe.record.reasons import Reason
from backprobe.tracing.schema import Schema

NONFINITE = Options(nonfinite=True)


class Anything:
    """Selects what there is: a model of a framework's own layers has no local that a pattern of ours would match."""

    def refuse_missed(self, schema: Schema) -> None:
        return


class Explained(NamedTuple):
    """What a repeated call showed, or why it was not repeated; and its recording."""

    known: Report | Reason
    record: Record | None = None


def explained(backend: Backend, failed: Repeatable, record: Callable[[], Record]) -> Explained:
    """What running the failed call again shows. The program never sees errors of this."""
    from backprobe.explain.nonfinite import explain_nonfinite  # which imports NumPy

    why = failed.why_not_again()
    if why is not None:
        return Explained(why)
    try:
        with again(backend, failed):
            made = record()
        report = explain_nonfinite(made)
    except NotTheSame as found:
        return Explained(found.why)
    except Exception as error:  # noqa: BLE001  what is raised is NotFinite, with or without a reason
        return Explained(Reason("repeat_raised", {"error": type(error).__name__}))
    return Explained(Reason("repeat_finite") if report.ok else report, made)
