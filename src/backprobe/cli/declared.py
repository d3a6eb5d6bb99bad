"""Command-line options built from the options of the verbs, so that allowed values are written only once."""

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
        # the verb also accepts pairs of names, which a command line cannot express
        replace(CONVENTION, allowed=tuple(CONVENTIONS), next='"flax"', says=""),
        # on the command line, this option accepts a single value, and can be repeated
        replace(WHAT, kind=str, allowed=KINDS, next="'grad'", says=""),
        replace(EXPORTING, name="to", next="'parquet'"),
        Option("steps", int, 1, "2"),
        Option("step", int, 0, "10"),
    )
}
"""Options that commands share with verbs, by name."""


def declared(name: str, help: str, **given: Any) -> Callable[[Command], Command]:
    """Return a click option for a command. ``{}`` in ``help`` is replaced by the allowed values."""
    return option_of(OPTIONS[name], help, **given)
