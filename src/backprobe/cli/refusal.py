"""Bad input on the command line: one of our errors on standard error, and exit status 2."""

from __future__ import annotations

import shlex
import sys
from typing import IO, Any

import click

from backprobe.errors import BackprobeError, BadOption
from backprobe.record.names import nearest

RENAMED = {"run": "probe"}


class Refusal(click.ClickException):
    """One of our errors, as click reports it."""

    exit_code = 2  # 1 is for findings

    def __init__(self, error: BackprobeError) -> None:
        super().__init__("\n".join([f"{type(error).__name__}: {error}", *getattr(error, "__notes__", ())]))

    def show(self, file: IO[Any] | None = None) -> None:
        click.echo(self.message, file=file or sys.stderr)


class Verb(click.Command):
    """A command whose bad input is refused with one of our errors."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        typed = spelled(self.name, *args)
        try:
            return super().parse_args(ctx, args)
        except click.exceptions.NoArgsIsHelpError:
            raise
        except click.UsageError as error:
            headline = error.format_message().rstrip(".")
            raise Refusal(BadOption(headline, asked=typed, next=f"backprobe {self.name} --help")) from error

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BackprobeError as error:
            raise Refusal(error) from error


class Verbs(click.Group):
    """The commands by name; a name that is not one of them is refused with the nearest."""

    command_class = Verb

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name, *rest = args
        if name not in self.commands:
            raise Refusal(self._unknown(name, rest))
        return super().resolve_command(ctx, args)

    def _unknown(self, name: str, rest: list[str]) -> BadOption:
        meant = RENAMED.get(name) or (nearest(name, self.commands) or ["probe"])[0]
        return BadOption(
            f"`backprobe {name}` is now `backprobe {meant}`" if name in RENAMED else f"there is no command {name!r}",
            asked=spelled(name, *rest), found=f"commands: {', '.join(self.commands)}", next=spelled(meant, *rest),
        )  # fmt: skip


def spelled(*words: str | None) -> str:
    """A command line as one would type it."""
    return shlex.join(["backprobe", *(word for word in words if word is not None)])
