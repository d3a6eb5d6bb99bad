"""Findings as text: a numbered list, each with the file and line of its cause as editors and terminals link them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from backprobe.record.source import Source

ARROW = " -> "


class Shown(Protocol):
    """What of a finding is shown."""

    @property
    def headline(self) -> str: ...
    @property
    def source(self) -> Source | None: ...
    @property
    def facts(self) -> tuple[str, ...]: ...
    @property
    def chain(self) -> tuple[str, ...]: ...
    @property
    def remedy(self) -> str: ...


def to_text(heading: str, findings: Sequence[Shown], notes: Sequence[str]) -> str:
    """A heading, the findings below it, and the notes."""
    lines = [heading]
    for number, finding in enumerate(findings, 1):
        mark = f"{number}. " if len(findings) > 1 else ""
        first, *rest = _lines(finding)
        lines += [f"  {mark}{first}", *(f"  {' ' * len(mark)}{line}" for line in rest)]
    lines += [f"  note: {note}" for note in notes]
    return "\n".join(lines)


def _lines(finding: Shown) -> list[str]:
    lines = finding.headline.splitlines()
    if finding.source is not None:
        lines += [f"  at:    {finding.source.file}:{finding.source.line}", f"           {finding.source.text.strip()}"]
    if finding.chain:
        lines.append(f"  path:  {ARROW.join(finding.chain)}")
    lines += [f"  seen:  {fact}" for fact in finding.facts]
    if finding.remedy:
        first, *rest = finding.remedy.splitlines()
        lines += [f"  next:  {first}", *(f"         {line}" for line in rest)]
    return lines
