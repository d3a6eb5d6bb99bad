"""Commands that fail: because of bad input, an error of the program, or Ctrl-C.

Bad input is reported as an error of backprobe, with exit status 2.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import MutableMapping, Sequence
from importlib import import_module
from typing import IO, Any

import click

from backprobe.cli.output import alone, shared
from backprobe.cli.program_error import REFUSED, shown
from backprobe.cli.spelling import for_shell
from backprobe.cli.stopping import UNREAD, is_unread
from backprobe.errors import BackprobeError, BadOption
from backprobe.findings.wrapping import fitted
from backprobe.record.names import nearest
from backprobe.show.printing import echo

TYPED = "backprobe.typed"
"""Key in a command's context: the command line as the user typed it."""
INTERRUPTED = "backprobe.interrupted"
"""Key in a command's context: True after Ctrl-C has ended the program."""
STOPPED = 130
"""The exit status after Ctrl-C: 128 plus the number of the signal, as in shells."""
RENAMED = {"run": "probe"}
ALL_KINDS = [word for kind in ("value", "grad", "param", "update") for word in ("--what", kind)]
RENAMED_OPTIONS = {
    ("watch", "--into"): ["--folder"],
    ("watch", "--updates"): ALL_KINDS,
    ("demo", "--into"): ["--folder"],
    ("provoke", "--steps"): ["--tries"],
}


class Refusal(click.ClickException):
    """An error of backprobe in the form that click prints."""

    exit_code = REFUSED

    def __init__(self, error: BackprobeError) -> None:
        super().__init__("\n".join([f"{type(error).__name__}: {error}", *getattr(error, "__notes__", ())]))

    def show(self, file: IO[Any] | None = None) -> None:
        echo(fitted(self.message, sys.stderr), err=True)


class Verb(click.Command):
    """A command with the options that all commands share. Bad input is reported as an error of backprobe."""

    def __init__(self, *args: Any, **given: Any) -> None:
        super().__init__(*args, **given)
        self.params += shared()

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        given = [*args]  # a copy, because click empties the list
        typed = ctx.meta[TYPED] = spelled(self.name, *given)
        try:
            return super().parse_args(ctx, self.placed(ctx, args))
        except click.exceptions.NoArgsIsHelpError:
            raise
        except BackprobeError as error:
            raise self._refusal(ctx, error) from error
        except click.UsageError as error:
            headline, old = error.format_message().rstrip("."), str(getattr(error, "option_name", ""))
            if new := RENAMED_OPTIONS.get((str(self.name), old)):
                retyped = spelled(self.name, *_exchanged(given, old, new))
                raise Refusal(BadOption(f"{old} is now {' '.join(new)}", asked=typed, next=retyped)) from error
            similar = (getattr(error, "possibilities", None) or [])[:1]
            retyped = (
                spelled(self.name, *_exchanged(given, old, similar)) if similar else f"backprobe {self.name} --help"
            )
            raise Refusal(BadOption(headline, asked=typed, next=retyped)) from error

    def placed(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Rearrange the words for click; subclasses override this."""
        return args

    def invoke(self, ctx: click.Context) -> Any:
        try:
            with alone():
                result = super().invoke(ctx)
        except BackprobeError as error:
            raise self._refusal(ctx, error) from error
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except KeyboardInterrupt:
            echo("stopped by Ctrl-C", err=True)
            raise SystemExit(STOPPED) from None
        except SystemExit:
            if INTERRUPTED in ctx.meta:
                raise SystemExit(STOPPED) from None
            raise
        except Exception as error:
            raise SystemExit(UNREAD if is_unread(error) else shown(error)) from error
        if INTERRUPTED in ctx.meta:
            raise SystemExit(STOPPED)
        return result

    def _refusal(self, ctx: click.Context, error: BackprobeError) -> Refusal:
        # Rewrite an error of the Python API for the shell: the command that was typed, and the command to type next.
        if not _is_own(error):
            error.asked = ctx.meta[TYPED]
            if not error.next.startswith("backprobe "):
                # two programs are compared with random numbers: behind a softmax, the gradient of ones is always zero
                error.next = for_shell(error.next, self.params, "randn" if self.name == "diff" else "ones")
        return Refusal(error)


def _exchanged(given: Sequence[str], old: str, new: Sequence[str]) -> list[str]:
    # The words with another option in the place of the first that is spelled so.
    at = next(at for at, one in enumerate(given) if one.partition("=")[0] == old)
    return [*given[:at], *new[:-1], new[-1] + given[at][len(old) :], *given[at + 1 :]]


def _is_own(error: BackprobeError) -> bool:
    # Was the error raised in ``cli``? Then its message is already written for a shell.
    step = error.__traceback__
    while step is not None and step.tb_next is not None:
        step = step.tb_next
    return step is not None and step.tb_frame.f_globals.get("__package__") == __package__


class Verbs(click.Group):
    """The commands by name. The error for an unknown name suggests a similar one.

    ``others`` names a module that defines further commands. It is imported only when one of them, or the list of all
    commands, is needed.
    """

    command_class = Verb

    def __init__(self, *args: Any, others: str, **given: Any) -> None:
        self._others = others
        super().__init__(*args, **given)

    @property
    def commands(self) -> MutableMapping[str, click.Command]:  # type: ignore[override]
        """All commands by name."""
        import_module(self._others)
        return self._known

    @commands.setter
    def commands(self, known: MutableMapping[str, click.Command]) -> None:
        self._known = known

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return self._known.get(cmd_name) or self.commands.get(cmd_name)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name, *rest = args
        if self.get_command(ctx, name) is None:
            raise Refusal(self._unknown(name, rest))
        return super().resolve_command(ctx, args)

    def _unknown(self, name: str, rest: list[str]) -> BadOption:
        meant = RENAMED.get(name) or (nearest(name, self.commands) or ["probe"])[0]
        return BadOption(
            f"`backprobe {name}` is now `backprobe {meant}`" if name in RENAMED else f"there is no command {name!r}",
            asked=spelled(name, *rest),
            found=f"commands: {', '.join(self.commands)}",
            next=spelled(meant, *rest),
        )


def spelled(*words: str | None) -> str:
    """Return a command line as one would type it, with quotes."""
    return shlex.join(["backprobe", *(word for word in words if word is not None)])
