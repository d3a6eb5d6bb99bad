"""The error that a recorded program raised, as a finding: the recording ends at it."""

from __future__ import annotations

from collections.abc import Mapping

from backprobe.explain.text import finding, say
from backprobe.findings.phrasing import shorten
from backprobe.findings.report import Finding
from backprobe.record.entries import Record
from backprobe.record.source import Source

MOST = 200  # characters of what an error says
RAISED = ("raised", "raised_at")


def raised(record: Record) -> list[Finding]:
    """The finding about the error that ended a block, if one did."""
    return [_finding(note.fields, record.framework) for note in record.notes if note.code in RAISED]


def _finding(fields: Mapping[str, str], framework: str) -> Finding:
    file, _, line = fields.get("at", "").rpartition(":")
    source = Source(file, int(line), fields.get("text", "")) if file else None
    facts = [*filter(None, [fields.get("known", "")]), say("ends_here")]
    return finding("raised", "", source, framework, facts=facts, error=shorten(fields["error"], MOST))
