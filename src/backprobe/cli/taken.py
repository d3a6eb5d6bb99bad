"""A command-line option that accepts the same values as the option of a verb."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

import click

from backprobe.record.options import Option

Command = TypeVar("Command", bound=Callable[..., Any])


class Taken(click.types.StringParamType):
    """Parses an option's value, and rejects a wrong value with the same message as the verb."""

    def __init__(self, option: Option) -> None:
        self.name = "integer" if option.kind is int else "text"
        allowed = option.allowed if isinstance(option.allowed, tuple) else ()
        self.values = {str(one).lower() if isinstance(one, bool) else str(one): one for one in allowed}
        self.option = replace(option, kind=str, allowed=tuple(self.values)) if allowed else option

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The value in the form that the verb expects. Raises BadOption."""
        if self.option.kind is int and str(value).removeprefix("-").isdecimal():
            value = int(value)
        self.option.check(value)
        return self.values.get(value, value)


def option_of(option: Option, help: str, **given: Any) -> Callable[[Command], Command]:
    """Return an option of a verb as a click option. ``{}`` in ``help`` is replaced by the allowed values."""
    taken = Taken(option)
    *more, last = taken.values or [""]
    return click.option(f"--{option.name}", type=taken, help=help.format(f"{', '.join(more)} or {last}"), **given)
