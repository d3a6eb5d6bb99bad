"""The command that shows runs in a browser."""

from __future__ import annotations

import click

from backprobe.cli.refusal import Verb
from backprobe.cli.taken import option_of
from backprobe.cli.viewed import viewed
from backprobe.view import OPTIONS as VIEWING


@click.command(cls=Verb, short_help="Show runs in a browser, also during a training.")
@click.argument("sources", metavar="RUN [RUN]...", nargs=-1, required=True)
@option_of(VIEWING[0], "The port of the server; by default any free port.", default=0, metavar="N")
@click.option("--no-open", is_flag=True, help="Do not open a browser.")
@click.option("--until-ended", is_flag=True, help="Stop the server when the training of every run has ended.")
def view(sources: tuple[str, ...], port: int, no_open: bool, until_ended: bool) -> None:
    """Show runs in a browser: losses, alerts, and the statistics of every name over the steps.

    \b
    backprobe view runs/exp1
    backprobe view runs              all runs in a folder
    backprobe view runs bad-step     also the graph of a recording
    backprobe view diff.html         a page written by backprobe diff --html
    backprobe view runs/exp1 --no-open --port 8000

    RUN is the folder that was given to bp.watch, or a folder that contains such folders; or a recording; or a page that
    shows a recording, a diff, an attribution or a sweep. New steps of a running training appear on the page. Ctrl-C
    stops the server. Its address is printed, and can be opened only on this machine, and only with the token in it.
    """
    viewed(sources, port, not no_open, until_ended)
