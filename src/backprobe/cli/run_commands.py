"""The commands that show and export the runs which ``bp.watch`` wrote."""

from __future__ import annotations

import sys
from typing import Any

import click

import backprobe as bp
from backprobe.cli.declared import declared
from backprobe.cli.output import show
from backprobe.cli.refusal import Verb
from backprobe.cli.viewed import saved
from backprobe.cli.watched import the_run
from backprobe.errors import BadOption
from backprobe.findings.phrasing import plural


@click.command(cls=Verb, short_help="Show the run of a watched training, and its alerts.")
@click.argument("runs", metavar="RUN [RUN2]", nargs=-1, required=True)
@click.option("--name", metavar="NAME", help="Show all statistics of this name, over all steps.")
@declared("step", "Show all names at this step.", metavar="N")
@click.option(
    "--html",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Write a self-contained page that shows one run, or two side by side.",
)
def report(runs: tuple[str, ...], name: str | None, step: int | None, html: str | None) -> None:
    """Show the run of a watched training: the alerts, and statistics of its modules over the steps.

    \b
    backprobe report runs/exp1
    backprobe report runs/exp1 --name h.3.attn
    backprobe report runs/exp1 --step 120
    backprobe report runs/exp1 --html run.html
    backprobe report runs/exp1 runs/exp2 --html both.html

    RUN is the folder that was given to bp.watch, or a folder that contains only that one. The training may still be
    running.

    The exit status is 1 if there are alerts; with --name, alerts about this name; with --step, never.
    """
    if html is not None:
        saved(tuple(map(the_run, runs)), html, name=name, step=step)
    if len(runs) > 1:
        raise BadOption(
            "the report of several runs is a page",
            asked=f"backprobe report {' '.join(runs)}",
            next=f"backprobe report {' '.join(runs)} --html runs.html, or backprobe diff {' '.join(runs[:2])}",
        )
    with bp.open_run(the_run(runs[0])) as opened:
        shown = opened.report(name, step)
        show(shown)
        sys.exit(int(not shown.ok))


@click.command(cls=Verb, short_help="Export the run of a watched training for other tools.")
@click.argument("run", metavar="RUN")
@declared("to", "The format: {}.", required=True, metavar="FORMAT")
@click.option(
    "--field",
    "fields",
    metavar="FIELD",
    multiple=True,
    help="Export only this statistic, as in grad.rms; may be repeated.",
)
@click.argument("path", metavar="PATH")
def export(run: str, to: Any, path: str, fields: tuple[str, ...]) -> None:
    """Export the run of a watched training for other tools. A repeated export adds only the new steps.

    \b
    backprobe export runs/exp1 --to parquet exported
    backprobe export runs/exp1 --to arrow s3://bucket/exp1
    backprobe export runs/exp1 --to tensorboard tb --field grad.rms

    RUN is the folder that was given to bp.watch, or a folder that contains only that one. The training may still be
    running. PATH is a folder; for parquet and arrow it may also be a URL that fsspec supports. bp.open_run(PATH) reads
    a run from parquet and arrow.
    """
    with bp.open_run(the_run(run)) as opened:
        opened.export(path, to, list(fields) or None)
        show(f"exported {plural(len(opened.steps), 'step')} to {path}", {"steps": len(opened.steps), "path": path})
