"""Births between a module's inputs and its output: what is known where no line is, and what to select to see it."""

from __future__ import annotations

from collections.abc import Sequence

from backprobe.record.entries import Entry
from backprobe.record.names import split

START = "backward()"  # what a block calls that which the program ran backward from
BEFORE = (
    "{word} is in what backward() ran from: an operation between {between} and it made it, or something else that went "
    "in there brought it; no line in between is recorded"
)
SEE_BETWEEN = (
    "with bp.probe(nonfinite=True) as rec: around the same lines, each result bound to a variable: it records those"
)
NO_SCALE = "; under a GradScaler an overflow is expected now and then: it skips the step and lowers the scale"
LOWER_SCALE = (
    "a smaller scale, such as a lower init_scale of the GradScaler: gradients are divided by it before the step"
)
MOST_LISTED = 4
NOT_SEEN = "what else the module was given is not recorded"


def within(word: str, entry: Entry, given: Sequence[str]) -> tuple[str, str]:
    """The kind of finding and a sentence about what is born on the way to an entry; ``given`` are values, not weights.

    Where nothing that a module was given is recorded, it may have come in with that.
    """
    path = common(entry, given)
    place = f"the module {path!r}" if path else "the model"
    if not given:
        return "unknown", f"{word} comes out of {place}: born inside of it, or it came in with what it was given"
    return "born", f"{word} is born inside {place}, between {listed(given)} and its output {entry.name!r}"


def listed(names: Sequence[str]) -> str:
    """The first of some names, as text."""
    return ", ".join(map(repr, names[:MOST_LISTED])) or "what is recorded"


def scaled(scales: Sequence[float | None]) -> list[str]:
    """By how much a loss was multiplied before backward, where it was."""
    large = [scale for scale in scales if scale is None or abs(scale) > 1]
    by = "a number that is not known" if None in large else ", ".join(f"{scale:.6g}" for scale in large)
    return [f"the loss was multiplied by {by} before backward" + NO_SCALE] if large else []


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
