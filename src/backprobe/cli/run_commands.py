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
@click.option("--name", metavar="NAME", help="Every field of this name over all steps.")
@declared("step", "All names at this step.", metavar="N")
@click.option(
    "--html",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Write a page that shows the run, or two beside each other, and needs nothing else.",
)
def report(runs: tuple[str, ...], name: str | None, step: int | None, html: str | None) -> None:
    """Show the run of a watched training: what goes wrong, and its modules over the steps.

    \b
    backprobe report runs/exp1
    backprobe report runs/exp1 --name h.3.attn
    backprobe report runs/exp1 --step 120
    backprobe report runs/exp1 --html run.html
    backprobe report runs/exp1 runs/exp2 --html both.html

    RUN is the folder that bp.watch was given, or one that holds that folder alone; it may still be written.

    The exit status is 1 if there are alerts, of NAME where one is given; a step has none.
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


@click.command(cls=Verb, short_help="Write the run of a watched training for other tools.")
@click.argument("run", metavar="RUN")
@declared("to", "{}.", required=True, metavar="FORMAT")
@click.option(
    "--field", "fields", metavar="FIELD", multiple=True, help="Write only this field, as grad.rms; may be repeated."
)
@click.argument("path", metavar="PATH")
def export(run: str, to: Any, path: str, fields: tuple[str, ...]) -> None:
    """Write the run of a watched training for other tools, or what is new of it since the last time.

    \b
    backprobe export runs/exp1 --to parquet exported
    backprobe export runs/exp1 --to arrow s3://bucket/exp1
    backprobe export runs/exp1 --to tensorboard tb --field grad.rms

    RUN is the folder that bp.watch was given, or one that holds that folder alone; it may still be written. PATH is a
    folder, or for parquet and arrow a URL that fsspec knows. bp.open_run(PATH) reads a run from parquet and arrow.
    """
    with bp.open_run(the_run(run)) as opened:
        opened.export(path, to, list(fields) or None)
        show(f"exported {plural(len(opened.steps), 'step')} to {path}", {"steps": len(opened.steps), "path": path})
