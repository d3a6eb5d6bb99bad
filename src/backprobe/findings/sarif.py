"""Reports in SARIF 2.1.0, the format in which GitHub and editors show findings at their lines.

https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from backprobe.findings.report import Report
from backprobe.record.source import Source

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
ROOT = "%SRCROOT%"
"""Stands for the folder that relative addresses begin at."""


def sarif(report: Report, verb: str, version: str, root: Path, program: str, *, ran: bool = True) -> dict[str, Any]:
    """A report as the log of one run, whose files are relative to ``root`` where they lie in it.

    A finding without a line is shown at ``program``, the file or folder that the report is about, so that viewers have
    a place for it. ``ran`` says whether the program came to its end.
    """
    causes = {one.headline: one.source for one in report if not one.cause}
    results = []
    for one in report:
        words = [one.title, *(f"{label}: {said}" for label, said in one._parts()[2:] if said)]
        way = [(line, f"the path comes by {name!r}") for name, line in zip(one.chain, one.lines, strict=False)]
        way.append((causes.get(one.cause), f"it follows from this: {one.cause}"))
        results.append({
            "ruleId": one.kind, "level": "note" if one.cause in causes else one.level,
            "message": {"text": "\n".join(words)}, "locations": [_place(one.source, root, program)],
            "relatedLocations": [
                {**_place(line, root, program), "message": {"text": said}} for line, said in way if line is not None
            ],
        })  # fmt: skip
    kinds = dict.fromkeys(one.kind for one in report)
    rules = [{"id": kind, "shortDescription": {"text": f"{verb}: {kind.replace('_', ' ')}"}} for kind in kinds]
    notes = [{"level": "note", "message": {"text": note}} for note in report.notes]
    run = {
        "tool": {"driver": {"name": "backprobe", "version": version, "rules": rules}},
        "invocations": [{"executionSuccessful": ran, "toolExecutionNotifications": notes}],
        "originalUriBaseIds": {ROOT: {"uri": _folder(root)}}, "results": results,
    }  # fmt: skip
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _folder(root: Path) -> str:
    return (root / "f").as_uri()[:-1]


def _place(source: Source | None, root: Path, program: str) -> dict[str, Any]:
    # A line, or the program where there is none or it is in no file.
    line = None if source is None or source.file[:1] == "<" else source
    file = root / (program if line is None else line.file)
    address = {"uri": file.as_uri()}
    if file.is_relative_to(root):
        address = {"uri": file.as_uri().removeprefix(_folder(root)), "uriBaseId": ROOT}
    if line is None:
        return {"physicalLocation": {"artifactLocation": address}}
    lines = {"startLine": line.line, "endLine": line.line + len(line.below), "snippet": {"text": line.statement}}
    return {"physicalLocation": {"artifactLocation": address, "region": lines}}
