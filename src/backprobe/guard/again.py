"""The failing call run again under a probe, and explained."""

from __future__ import annotations

from collections.abc import Callable

from backprobe.backends.facts import Options
from backprobe.backends.guards import NotTheSame, Repeatable
from backprobe.findings.report import Report
from backprobe.record.entries import Record
from backprobe.record.reasons import Reason
from backprobe.tracing.schema import Schema

NONFINITE = Options(nonfinite=True)


class Anything:
    """Selects what there is: a model of a framework's own layers has no local that a pattern of ours would match."""

    def refuse_missed(self, schema: Schema) -> None:
        return


def explained(failed: Repeatable, record: Callable[[], Record]) -> Report | Reason:
    """What is known of what is run again, or why it is not. Whatever that raises, the program is not to see."""
    from backprobe.explain.nonfinite import explain_nonfinite  # which imports NumPy

    why = failed.why_not_again()
    if why is not None:
        return why
    try:
        with failed.restored():
            found = record()
        report = explain_nonfinite(found)
    except NotTheSame as found:
        return found.why
    except Exception as error:  # noqa: BLE001  what is raised is NotFinite, with or without a reason
        return Reason("repeat_raised", {"error": type(error).__name__})
    return Reason("repeat_finite") if report.ok else report
