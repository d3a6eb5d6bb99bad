"""Reports in SARIF 2.1.0, the format in which GitHub and editors show findings at their lines.

https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from backprobe.findings.finding import Finding
from backprobe.record.source import Source

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
ROOT = "%SRCROOT%"
"""The name that stands for the root folder in relative addresses."""


def sarif(
    findings: Sequence[Finding], notes: Sequence[str], root: Path, program: str, *, verb: str = "", ran: bool = True
) -> dict[str, Any]:
    """Return a report as a SARIF log of one run. Files inside ``root`` have relative addresses.

    A finding without a line is placed at ``program``, the file or folder that the report is about, because viewers need
    a place. ``ran`` is True if the program ran to its end.
    """
    causes = {one.headline: one.source for one in findings if not one.cause}
    results = []
    for one in findings:
        words = [one._title(None), *(f"{label}: {said}" for label, said in one._parts()[2:] if said)]
        way = [(line, f"the path comes by {name!r}") for name, line in zip(one.chain, one.lines, strict=False)]
        way.append((causes.get(one.cause), f"it follows from this: {one.cause}"))
        results.append(
            {
                "ruleId": one.kind,
                "level": "note" if one.cause in causes else one.level,
                "message": {"text": "\n".join(words)},
                "locations": [_place(one.source, root, program)],
                "relatedLocations": [
                    {**_place(line, root, program), "message": {"text": text}} for line, text in way if line is not None
                ],
            }
        )
    kinds = dict.fromkeys(one.kind for one in findings)
    about = f"{verb}: " if verb else ""
    rules = [{"id": kind, "shortDescription": {"text": about + kind.replace("_", " ")}} for kind in kinds]
    said = [{"level": "note", "message": {"text": note}} for note in notes]
    run = {
        "tool": {"driver": {"name": "backprobe", "version": sys.modules["backprobe"].__version__, "rules": rules}},
        "invocations": [{"executionSuccessful": ran, "toolExecutionNotifications": said}],
        "originalUriBaseIds": {ROOT: {"uri": _folder(root)}},
        "results": results,
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _folder(root: Path) -> str:
    return (root / "f").as_uri()[:-1]


def _place(source: Source | None, root: Path, program: str) -> dict[str, Any]:
    # The place of a line, or of the program if there is no line or the line is in no file.
    line = None if source is None or source.file[:1] == "<" else source
    file = root / (program if line is None else line.file)
    address = {"uri": file.as_uri()}
    if file.is_relative_to(root):
        address = {"uri": file.as_uri().removeprefix(_folder(root)), "uriBaseId": ROOT}
    if line is None:
        return {"physicalLocation": {"artifactLocation": address}}
    lines = {"startLine": line.line, "endLine": line.line + len(line.below), "snippet": {"text": line.statement}}
    return {"physicalLocation": {"artifactLocation": address, "region": lines}}
