"""The options of commands, taken from the verbs' declarations, so that allowed values are written only once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from backprobe.check import ORDER
from backprobe.cli.taken import Command, option_of
from backprobe.diff.conventions import CONVENTION, CONVENTIONS
from backprobe.draw import OPTIONS as DRAWING
from backprobe.exports import FORMAT as EXPORTING
from backprobe.probe.request import OPTIONS as PROBING
from backprobe.provoke import OPTIONS as PROVOKING
from backprobe.record.options import Option
from backprobe.watch.options import KINDS, PACES, WHAT
from backprobe.watch.options import OPTIONS as WATCHING

OPTIONS = {
    one.name: one
    for one in (
        *PROBING,
        *DRAWING,
        *PROVOKING,
        *WATCHING,
        *PACES,
        ORDER,
        # pairs of names cannot be written on a command line
        replace(CONVENTION, allowed=tuple(CONVENTIONS), next='"flax"', says=""),
        replace(WHAT, kind=str, allowed=KINDS, next="'grad'", says=""),  # a command repeats the option instead
        replace(EXPORTING, name="to", next="'parquet'"),
        Option("steps", int, 1, "2"),
        Option("step", int, 0, "10"),
    )
}
"""The options that commands share with verbs, by name."""


def declared(name: str, help: str, **given: Any) -> Callable[[Command], Command]:
    """A click option for a command. ``{}`` in ``help`` stands for the allowed values."""
    return option_of(OPTIONS[name], help, **given)
