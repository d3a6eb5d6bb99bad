"""The errors that a recorded program raised, as findings: the recording ends at one that it did not catch."""

from __future__ import annotations

from collections.abc import Mapping

from backprobe.explain.about_entries import line_in
from backprobe.explain.rebound import CODE as REBOUND
from backprobe.explain.rebound import rebound_finding
from backprobe.explain.text import finding, say
from backprobe.findings.phrasing import shorten
from backprobe.findings.report import Finding
from backprobe.record.entries import Record

MOST = 200  # characters of an error's first line that are shown
LINES = 20  # lines of an error that are shown
RAISED = {
    "raised": "raised",
    "raised_at": "raised",
    "caught": "raised.caught",
    "caught_at": "raised.caught",
    "cut_short_at": "raised.cut_short",
}
"""The codes of notes, and those of findings."""


def raised(record: Record) -> list[Finding]:
    """The findings about errors: those of backward that the program caught, and the one that ended a block."""
    return [
        rebound_finding(note, record.framework, say("ends_here"))
        if note.code == REBOUND
        else _finding(RAISED[note.code], note.fields, record.framework)
        for note in record.notes
        if note.code in RAISED or note.code == REBOUND
    ]


def _shortened(text: str) -> str:
    # The first lines of a text, and how many more there are.
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
