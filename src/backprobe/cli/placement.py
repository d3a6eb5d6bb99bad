"""Commands that take a script: options of ours stand before it, and every word behind it is the script's."""

from __future__ import annotations

from typing import Any

import click

from backprobe.cli.module import PLACED
from backprobe.cli.program import MODULE, is_script
from backprobe.cli.refusal import TYPED, Refusal, Verb, spelled
from backprobe.errors import BadOption
from backprobe.findings.phrasing import listed

WHY = "of a script, options of ours come before it, and every word behind it is its own"


class ScriptVerb(Verb):
    """A command of FILE:FUNCTION or a recording, among whose words options may stand anywhere, or of a script.

    The words of a script are not looked at, as ``python`` does not; a first ``--`` is left out.
    """

    def __init__(self, *args: Any, **given: Any) -> None:
        super().__init__(*args, **given)
        text = 'Run a module, as "python -m MODULE" does, with the words behind it.'
        option = click.Option(["-m"], metavar="MODULE", expose_value=False, callback=_misplaced, help=text)
        self.params.append(option)

    def placed(self, ctx: click.Context, args: list[str]) -> list[str]:
        """The words as click understands them: ``--`` before the script, and what follows untouched."""
        options = {name: one for one in self.get_params(ctx) if isinstance(one, click.Option) for name in one.opts}
        del options["-m"]
        at = 0
        while at < len(args) and args[at].startswith("-") and args[at] not in ("-", "--") and args[at][:2] != "-m":
            at += 2 if _takes_next(options, args[at]) else 1
        before, behind = args[:at], args[at:]
        is_module = bool(behind) and behind[0][:2] == "-m"
        if is_module or behind[:1] == ["--"]:
            behind = [behind[0][2:], *behind[1:]] if len(behind[0]) > 2 else behind[1:]
        if not behind or not (is_module or is_script(behind[0])):
            return args
        if is_module:
            ctx.meta[MODULE] = behind[0]
        count = sum(isinstance(one, click.Argument) and one.nargs == 1 for one in self.params)
        ours, words = behind[:count], behind[count:]
        if "--" in ours[1:]:
            ours, words = [word for word in ours if word != "--"] + words[:1], words[1:]
        elif words[:1] == ["--"]:
            words = words[1:]
        else:
            self._look(ctx, options, before, behind)
        return [*before, "--", *ours, *words]

    def _look(self, ctx: click.Context, options: dict[str, click.Option], before: list[str], behind: list[str]) -> None:
        # Keep a line about words of the script that are spelled like options of ours. Raises Refusal where it is a
        # word of ours that is missing.
        program, *words = behind
        taken, rest = _options(options, words[: words.index("--") if "--" in words else None])
        if not taken:
            return
        names = listed(
            list(dict.fromkeys(word.partition("=")[0] for word in taken if word.partition("=")[0] in options))
        )
        rest += words[len(taken) + len(rest) :]
        module = ["-m"] if MODULE in ctx.meta else []
        typed = spelled(self.name, *before, *taken, *module, program, *rest)
        count = sum(isinstance(one, click.Argument) and one.nargs == 1 for one in self.params)
        if any(word.partition("=")[0] in options for word in behind[1:count]):
            asked = ctx.meta[TYPED]
            raise Refusal(BadOption(f"{names} stands behind {program}", asked=asked, why=WHY, next=typed))
        ctx.meta[PLACED] = f"backprobe: {names} was passed to {program}; to pass it to backprobe: {typed}"


def _options(options: dict[str, click.Option], words: list[str]) -> tuple[list[str], list[str]]:
    # The words that are options of ours and their values, and the others.
    taken: list[str] = []
    rest: list[str] = []
    is_value = False
    for word in words:
        (taken if is_value or word.partition("=")[0] in options else rest).append(word)
        is_value = not is_value and _takes_next(options, word)
    return taken, rest


def _takes_next(options: dict[str, click.Option], word: str) -> bool:
    # Is the next word the value of this one?
    option = options.get(word)
    return isinstance(option, click.Option) and not option.is_flag and not option.count


def _misplaced(ctx: click.Context, option: click.Parameter, value: str | None) -> None:
    if value is not None:
        raise click.UsageError("-m is in the place of a script, a function or a recording", ctx)
