"""Runs a failed call again under a probe, and explains the result."""

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
    """Accepts patterns that match no name.

    A pattern of local names matches nothing in a model of framework layers, which has no locals.
    """

    def refuse_missed(self, schema: Schema) -> None:
        return


class Explained(NamedTuple):
    """The result of repeating a call: a report, or the reason why there is none; and the recording. The recording is
    None if the call was not repeated, or if the repetition failed.
    """

    known: Report | Reason
    record: Record | None = None


def explained(backend: Backend, failed: Repeatable, record: Callable[[], Record]) -> Explained:
    """Repeat a failed call and explain it. Errors in doing so never reach the program."""
    from backprobe.explain.nonfinite import explain_nonfinite  # imported late, because it imports NumPy

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
