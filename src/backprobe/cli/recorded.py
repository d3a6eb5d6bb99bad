"""The recording that a command is about: of a function, of a whole script, or in a folder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

import backprobe as bp
from backprobe.cli import script
from backprobe.cli.program import PARTIALS, asked, is_saved, probed, refuse_beside_recording
from backprobe.errors import BadOption
from backprobe.record.names import nearest


def recorded(program: str, words: Sequence[str], *, partials: str | None, by_default: str = "false", **options: Any
             ) -> bp.Recording:  # fmt: skip
    """The recording. Raises BadOption, and what ``probed``, ``script.recorded`` and ``load`` raise."""
    if is_saved(program):
        refuse_beside_recording([program], words, {**options, "partials": partials})
        return bp.load(program, to="numpy")
    wanted = partials or by_default
    if program.endswith(".py") and ":" not in program:
        return script.recorded(program, words, partials=PARTIALS.get(wanted, wanted), **options)
    _refuse_options(program, words)
    return probed(program, words, partials=wanted, **options)


def _refuse_options(program: str, words: Sequence[str]) -> None:
    """Options that are not known belong to a script. Raises BadOption."""
    context = click.get_current_context()
    known = [name for one in context.command.params if isinstance(one, click.Option) for name in one.opts]
    for word in words:
        if word.startswith("--"):
            option = word.partition("=")[0]
            unknown = click.NoSuchOption(option, possibilities=nearest(option, known) or None, ctx=context)
            raise BadOption(
                unknown.format_message().rstrip("."), asked=asked(program, *words),
                next=f"backprobe {context.info_name} --help",
            )  # fmt: skip
