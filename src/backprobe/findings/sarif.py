"""Reports in SARIF 2.1.0, the format in which GitHub and editors show findings at their lines.

https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from backprobe.findings.report import Finding, Report
from backprobe.record.source import Source

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
ROOT = "%SRCROOT%"
"""Stands for the folder that relative addresses begin at."""


def sarif(report: Report, verb: str, version: str, root: Path, place: str) -> dict[str, Any]:
    """A report as the log of one run, whose files are relative to ``root`` where they lie in it.

    A finding that no line is known of is shown at ``place``, the file or folder that the report is about: GitHub takes
    none without a place. What it is a consequence of, and the lines along its chain, are related locations.
    """
    roots = {one.headline: one.source for one in report if not one.cause}
    results = [
        {"ruleId": one.kind, "level": "note" if one.cause in roots else one.level, "message": {"text": _said(one)},
         "locations": [_location(one.source, root, place)],
         "relatedLocations": [*_related(one, roots.get(one.cause), root)]}
        for one in report
    ]  # fmt: skip
    rules = [
        {"id": kind, "shortDescription": {"text": f"backprobe {verb}: {kind.replace('_', ' ')}"}}
        for kind in dict.fromkeys(one.kind for one in report)
    ]
    notes = [{"level": "note", "message": {"text": note}} for note in report.notes]
    run = {
        "tool": {"driver": {"name": "backprobe", "version": version, "rules": rules}},
        "invocations": [{"executionSuccessful": True, "toolExecutionNotifications": notes}],
        "originalUriBaseIds": {ROOT: {"uri": f"{root.as_uri()}/"}},
        "columnKind": "unicodeCodePoints", "results": results,
    }  # fmt: skip
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _said(one: Finding) -> str:
    seen = [f"seen: {fact}" for fact in one.facts]
    return "\n".join([one.headline, *seen, *([f"next: {one.remedy}"] if one.remedy else [])])


def _location(source: Source | None, root: Path, place: str, said: str = "") -> dict[str, Any]:
    file = (root / (place if source is None else source.file)).absolute()
    is_inside = file.is_relative_to(root)
    address = {"uri": file.as_uri().removeprefix(f"{root.as_uri()}/"), **({"uriBaseId": ROOT} if is_inside else {})}
    found: dict[str, Any] = {"artifactLocation": address}
    if source is not None:
        last = source.line + len(source.below)
        found["region"] = {"startLine": source.line, "endLine": last, "snippet": {"text": source.statement}}
    return {"physicalLocation": found, **({"message": {"text": said}} if said else {})}


def _related(one: Finding, root_cause: Source | None, root: Path) -> list[dict[str, Any]]:
    chain = zip(one.chain, one.lines, strict=False)
    found = [(line, f"the path comes by {name!r}") for name, line in chain]
    found += [(root_cause, f"it follows from this: {one.cause}")]
    return [_location(line, root, "", said) for line, said in found if line is not None]
