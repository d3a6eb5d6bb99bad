"""Births between a module's inputs and its output: what is known where no line is, and what to select to see it."""

from __future__ import annotations

from collections.abc import Sequence

from backprobe.names import split
from backprobe.record import Entry


def module_headline(word: str, entry: Entry, inputs: Sequence[str]) -> str:
    """A sentence about what is born on the way to an entry that no line of the user's is known for."""
    between = f"between {', '.join(map(repr, inputs[:4]))} and its output" if inputs else "before its output"
    return f"{word} is born inside {around(entry, inputs)}, {between} {entry.name!r}"


def around(entry: Entry, inputs: Sequence[str]) -> str:
    """The module that holds the whole way, as text."""
    path = common(entry, inputs)
    return f"the module {path!r}" if path else "the model"


def common(entry: Entry, inputs: Sequence[str]) -> str:
    """The path of the innermost module that holds an entry and all its inputs; its own parameters are inside it."""
    own = split(entry.name)[0] if split(entry.name)[1] is not None else entry.name
    found = own.split(".")
    for name in inputs:
        scope = split(name)[0].split(".")
        shared = 0
        while shared < min(len(found), len(scope)) and found[shared] == scope[shared]:
            shared += 1
        found = found[:shared]
    return ".".join(found)


def pattern_within(entry: Entry, inputs: Sequence[str]) -> str:
    """What to type to see the line."""
    path = common(entry, inputs)
    patterns = [f"{path}:*", f"{path}:*()", f"{path}.**:*"] if path else [":*", ":*()", "**:*"]
    return f"bp.probe(model, {patterns!r}, nonfinite=True), to see the line"
