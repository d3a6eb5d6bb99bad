"""Commands that run a script: options of backprobe precede the script, and all words after it belong to the script."""

from __future__ import annotations

from typing import Any

import click

from backprobe.cli.module import PLACED
from backprobe.cli.program import MODULE, is_script
from backprobe.cli.refusal import TYPED, Refusal, Verb, spelled
from backprobe.errors import BadOption
from backprobe.findings.phrasing import listed

WHY = "of a script, options of ours come before it, and every word behind it is its own"
HELP = 'Run a module as "python -m MODULE" does; the words after it are passed to it.'


class ScriptVerb(Verb):
    """A command that accepts FILE:FUNCTION or a recording with options anywhere, or a script after the options.

    The words after a script are passed to it unchanged, as with ``python``. A first ``--`` is dropped.
    """

    def __init__(self, *args: Any, **given: Any) -> None:
        super().__init__(*args, **given)
        self.params.append(click.Option(["-m"], metavar="MODULE", expose_value=False, callback=_misplaced, help=HELP))

    def placed(self, ctx: click.Context, args: list[str]) -> list[str]:
        """The words for click, with ``--`` before a script, so that click ignores the script's options."""
        options = {name: one for one in self.get_params(ctx) if isinstance(one, click.Option) for name in one.opts}
        del options["-m"]
        at = 0
        while at < len(args) and args[at].startswith("-") and args[at] not in ("-", "--") and args[at][:2] != "-m":
            at += 2 if _takes_next(options, args[at]) else 1
        before, behind = args[:at], args[at:]
        is_module = bool(behind) and behind[0][:2] == "-m"
        if is_module or behind[:1] == ["--"]:
            behind = [*filter(None, [behind[0][2:]]), *behind[1:]]
        if not behind or not (is_module or is_script(behind[0])):
            return args
        if is_module:
            ctx.meta[MODULE] = behind[0]
        count = sum(isinstance(one, click.Argument) and one.nargs == 1 for one in self.params)
        if "--" in behind[1 : count + 1]:
            del behind[behind.index("--", 1)]
        else:
            self._look(ctx, options, [*before, *["-m"] * is_module], behind, count)
        return [*before, "--", *behind]

    def _look(
        self, ctx: click.Context, options: dict[str, click.Option], before: list[str], behind: list[str], count: int
    ) -> None:
        # Store a remark if words after the script are spelled like options of backprobe, because the script gets them.
        # Raises Refusal if such a word comes before the last argument that the command itself requires, as before the
        # drawing in ``draw train.py --depth 1 x.svg``.
        taken: list[str] = []
        rest: list[str] = []
        takes_next = False
        for word in behind[1 : behind.index("--") if "--" in behind else None]:
            (taken if takes_next or word.partition("=")[0] in options else rest).append(word)
            takes_next = not takes_next and _takes_next(options, word)
        if not taken:
            return
        rest += behind[1 + len(taken) + len(rest) :]
        names = listed(list(dict.fromkeys(one for word in taken if (one := word.partition("=")[0]) in options)))
        module = before[-1:] if MODULE in ctx.meta else []
        typed = spelled(self.name, *before[: len(before) - len(module)], *taken, *module, behind[0], *rest)
        if any(word.partition("=")[0] in options for word in behind[1:count]):
            headline = f"{names} stands behind {behind[0]}"
            raise Refusal(BadOption(headline, asked=ctx.meta[TYPED], why=WHY, next=typed))
        ctx.meta[PLACED] = f"backprobe: {names} was passed to {behind[0]}; to pass it to backprobe: {typed}"


def _takes_next(options: dict[str, click.Option], word: str) -> bool:
    # Does the option in this word take the next word as its value?
    return word in options and not options[word].is_flag


def _misplaced(ctx: click.Context, option: click.Parameter, value: str | None) -> None:
    if value is not None:
        raise click.UsageError("-m is in the place of a script, a function or a recording", ctx)
