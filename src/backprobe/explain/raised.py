"""Findings on errors that a recorded program raised. An uncaught error ends the recording."""

from __future__ import annotations

from collections.abc import Mapping

from backprobe.explain.about_entries import line_in
from backprobe.explain.rebound import CODE as REBOUND
from backprobe.explain.rebound import rebound_finding
from backprobe.explain.text import finding, say
from backprobe.findings.phrasing import shorten
from backprobe.findings.report import Finding
from backprobe.record.entries import Record

MOST = 200  # the most characters of an error's first line that a headline quotes
LINES = 20  # the most lines of an error that are shown
RAISED = {
    "raised": "raised",
    "raised_at": "raised",
    "caught": "raised.caught",
    "caught_at": "raised.caught",
    "cut_short_at": "raised.cut_short",
}
"""For each code of a note, the code of the finding."""


def raised(record: Record) -> list[Finding]:
    """Return findings about errors: errors of backward that the program caught, and the error that ended a block."""
    return [
        rebound_finding(note, record.framework, say("ends_here"))
        if note.code == REBOUND
        else _finding(RAISED[note.code], note.fields, record.framework)
        for note in record.notes
        if note.code in RAISED or note.code == REBOUND
    ]


def _shortened(text: str) -> str:
    # The first lines of a text, and the number of the others.
    lines = text.splitlines()
    more = [f"and {len(lines) - LINES} more lines"] if len(lines) > LINES else []
    return "\n".join([*lines[:LINES], *more])


def _finding(code: str, fields: Mapping[str, str], framework: str) -> Finding:
    after = say("ends_here" if code == "raised" else "incomplete")
    error, rest = fields.get("error", ""), _shortened(fields.get("rest", ""))
    short = shorten(error, MOST)
    whole = error if short != error else ""  # shown in full only if the headline had to shorten it
    facts = [*filter(None, [whole, rest, fields.get("known", "")]), after]
    return finding(code, "", line_in(fields), framework, facts=facts, error=short)
