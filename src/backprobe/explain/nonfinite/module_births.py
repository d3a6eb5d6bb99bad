"""Births between a module's inputs and its output, where no line is known: in which module, and how to see more."""

from __future__ import annotations

from collections.abc import Sequence

from backprobe.record.entries import Entry
from backprobe.record.names import split


def common(entry: Entry, inputs: Sequence[str]) -> str:
    """The path of the innermost module that holds an entry and all its inputs; its own parameters are inside it."""
    own = split(entry.name)[0] if split(entry.name)[1] is not None else entry.name
    found = own.split(".")
    for name in inputs:
        scope = split(name)[0].split(".")
        found = [one for at, one in enumerate(found) if found[: at + 1] == scope[: at + 1]]
    return ".".join(found)


def to_look_into(entry: Entry, inputs: Sequence[str]) -> str:
    """What to type to see the line."""
    path = common(entry, inputs)
    return f"bp.probe(model, {f'{path}:*' if path else '**:*'!r}, nonfinite=True), to see the line"
