"""One row of the table, and how it is made of findings or of a printed answer."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

CONSEQUENCES = ("propagated", "healed")
"""What a report lists after its causes: where NaN and Inf went."""


class Row(NamedTuple):
    """A program in one form, and what was said of it."""

    group: str
    framework: str
    form: str
    case: str
    line: str = ""
    others: str = ""
    kinds: str = ""
    remedy: str = ""
    cures: str = ""
    right: str = ""


COLUMNS = Row._fields


def KEY(row):
    """What a row is known by."""
    return row[:4]


def yes(value):
    """A cell: empty where nothing is known."""
    return "" if value is None else "yes" if value else "no"


def of_findings(key, findings, marked, file, *, right=None, cures=None, found=None):
    """The row of a report; ``found`` are the lines where they are no findings' own."""
    causes = [one for one in findings if one["kind"] not in CONSEQUENCES]
    if found is None:
        sources = [one["source"] for one in causes if one["source"]]
        found = {each["line"] for each in sources if Path(each["file"]).name == file}
    kinds = ", ".join(one["kind"] for one in causes) or "none"
    remedied = f"{sum(bool(one['remedy']) for one in causes)} of {len(causes)}" if causes else ""
    return Row(*key, *of_lines(found, marked), kinds, remedied, yes(cures), yes(right))


def of_lines(found, marked):
    """How many of the marked lines were found, and how many others."""
    found, marked = set(found), set(marked)
    return (f"{len(found & marked)} of {len(marked)}" if marked else "", str(len(found - marked)))
