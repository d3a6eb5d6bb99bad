"""The options of commands, taken from the verbs' declarations, so that allowed values are written only once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

import click

from backprobe.check import ORDER
from backprobe.diff.conventions import CONVENTION, CONVENTIONS
from backprobe.draw import OPTIONS as DRAWING
from backprobe.exports import FORMAT as EXPORTING
from backprobe.probe.request import OPTIONS as PROBING
from backprobe.provoke import OPTIONS as PROVOKING
from backprobe.record.options import Option
from backprobe.view import OPTIONS as VIEWING
from backprobe.watch.options import KINDS, PACES, WHAT
from backprobe.watch.options import OPTIONS as WATCHING

Command = TypeVar("Command", bound=Callable[..., Any])
OPTIONS = {
    one.name: one
    for one in (
        *PROBING,
        *DRAWING,
        *PROVOKING,
        *WATCHING,
        *PACES,
        VIEWING[0],
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


class Taken(click.types.StringParamType):
    """Parses an option's value, and refuses a wrong one with the same message as the verb."""

    def __init__(self, option: Option) -> None:
        self.name = "integer" if option.kind is int else "text"
        allowed = option.allowed if isinstance(option.allowed, tuple) else ()
        self.values = {str(one).lower() if isinstance(one, bool) else str(one): one for one in allowed}
        self.option = replace(option, kind=str, allowed=tuple(self.values)) if allowed else option

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The value in the form that the verb takes. Raises BadOption."""
        if self.option.kind is int and str(value).removeprefix("-").isdecimal():
            value = int(value)
        self.option.check(value)
        return self.values.get(value, value)


def declared(name: str, help: str, **given: Any) -> Callable[[Command], Command]:
    """A click option for a command. ``{}`` in ``help`` stands for the allowed values."""
    taken = Taken(OPTIONS[name])
    *more, last = taken.values or [""]
    return click.option(f"--{name}", type=taken, help=help.format(f"{', '.join(more)} or {last}"), **given)
