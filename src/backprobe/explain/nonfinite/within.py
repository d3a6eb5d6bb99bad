"""Births between a module's inputs and its output: what is known where no line is, and what to select to see it."""

from __future__ import annotations

from collections.abc import Sequence

from backprobe.names import split
from backprobe.record import Entry

NOT_SEEN = "what else the module was given is not recorded"


def within(word: str, entry: Entry, given: Sequence[str]) -> tuple[str, str]:
    """The kind of finding and a sentence about what is born on the way to an entry; ``given`` are values, not weights.

    Where nothing that a module was given is recorded, it may have come in with that.
    """
    path = common(entry, given)
    place = f"the module {path!r}" if path else "the model"
    if not given:
        return "unknown", f"{word} comes out of {place}: born inside of it, or it came in with what it was given"
    between = ", ".join(map(repr, given[:4]))
    return "born", f"{word} is born inside {place}, between {between} and its output {entry.name!r}"


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


def to_look_into(entry: Entry, inputs: Sequence[str]) -> str:
    """What to type to see the line."""
    path = common(entry, inputs)
    return f"bp.probe(model, {f'{path}:*' if path else '**:*'!r}, nonfinite=True), to see the line"
