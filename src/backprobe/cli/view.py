"""The command that shows runs in a browser."""

from __future__ import annotations

import click

from backprobe.cli.refusal import Verb
from backprobe.cli.taken import option_of
from backprobe.cli.viewed import viewed
from backprobe.view import OPTIONS as VIEWING


@click.command(cls=Verb, short_help="Show runs in a browser, while they are written too.")
@click.argument("sources", metavar="RUN [RUN]...", nargs=-1, required=True)
@option_of(VIEWING[0], "The port of the server; the default is any that is free.", default=0, metavar="N")
@click.option("--no-open", is_flag=True, help="Open no browser.")
@click.option("--until-ended", is_flag=True, help="End when none of the runs is being written any more.")
def view(sources: tuple[str, ...], port: int, no_open: bool, until_ended: bool) -> None:
    """Show runs in a browser: losses, all names over the steps, alerts, each number.

    \b
    backprobe view runs/exp1
    backprobe view runs              all runs in a folder
    backprobe view runs bad-step     and the circuit of a recording
    backprobe view diff.html         a page of backprobe diff --html
    backprobe view runs/exp1 --no-open --port 8000

    RUN is the folder that bp.watch was given, or one around it, a recording, or the page of a recording, a diff, an
    attribution or a sweep. A run that is being written is followed, until Ctrl-C. The address is printed; only this
    machine can open it, and whoever has its token.
    """
    viewed(sources, port, not no_open, until_ended)
