"""The texts of ``bp.names``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from backprobe.findings.phrasing import plural
from backprobe.probe.request import typed_as

EVERYTHING = "**"
FROM_SOURCE = "from source"
UNREACHED = "from source; not bound to a tensor in this run"
NOT_RUN = "did not run"
PATH = "path only"
SAME = "same as {}"
MADE_LATER = "modules and parameters may be made as the model first runs: bp.names(model).after(x) has them"


def heading(name: str, marks: Mapping[str, str]) -> str:
    """The heading: the number of names, and how many of them were only read from the source."""
    read = sum(mark in (FROM_SOURCE, UNREACHED) for mark in marks.values())
    return f"{name}: {plural(len(marks), 'name')}" + (f", {read:,} of them read from the source" if read else "")


def left_out(names: Sequence[str]) -> str:
    """The note on paths with private segments, to what is listed by another path."""
    paths, lead = plural(len(names), "further path"), "lead" if len(names) > 1 else "leads"
    return f"{paths} through private attributes {lead} to what is listed, such as {names[0]}"


def spelled(target: Any, pattern: str | None) -> str:
    """The call of ``bp.names`` for a target, with a pattern if one is given."""
    return f"bp.names({typed_as(target)}" + (f", {pattern!r})" if pattern is not None else ")")
