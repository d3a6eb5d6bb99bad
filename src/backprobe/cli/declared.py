"""Options of commands as the verbs declare them: what each takes is written once, where the verb checks it."""

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
        replace(CONVENTION, allowed=tuple(CONVENTIONS), next='"flax"', says=""),  # a command line has no pairs of them
        replace(WHAT, kind=str, allowed=KINDS, next="'grad'", says=""),  # and repeats what is several
        replace(EXPORTING, name="to", next="'parquet'"),
        Option("steps", int, 1, "2"),
        Option("step", int, 0, "10"),
    )
}
"""Those that commands have, by their names."""


def declared(name: str, help: str, **given: Any) -> Callable[[Command], Command]:
    """The option of this name, for a command. In ``help`` stands {} for the values that it may have."""
    return option_of(OPTIONS[name], help, **given)
