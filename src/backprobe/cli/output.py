"""The output of a command: text, one JSON document or nothing, and optionally a SARIF file."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

import click

import backprobe
from backprobe.cli.stopping import number_of
from backprobe.findings.report import Report
from backprobe.record.disk import reached, unwritable, write_whole
from backprobe.record.stamp import environment
from backprobe.show.plain import plain_record
from backprobe.show.printing import echo

DOCUMENT, PLACE = "backprobe.document", "backprobe.place"
"""Keys in a command's context: the document that --json prints, and the file of the script or module that runs."""


def _keep(ctx: click.Context, option: click.Parameter, value: Any) -> None:
    # Make paths absolute now, because a script may change the current folder.
    is_path = value and option.name == "sarif"
    ctx.meta[f"backprobe.{option.name}"] = (Path(value).absolute(), Path.cwd()) if is_path else value
    if is_asked("json") and is_asked("quiet"):
        raise click.UsageError("--json prints a document, and --quiet prints nothing", ctx)
    if is_path and not (nearest := reached(Path(value))).is_dir():
        raise click.UsageError(f"--sarif: {str(nearest)!r} is a file, not a folder", ctx)


def shared() -> list[click.Option]:
    """The options of every command."""
    return [
        click.Option(
            ["--json"],
            is_flag=True,
            expose_value=False,
            callback=_keep,
            help="Print one JSON document, and what the program itself prints on standard error.",
        ),
        click.Option(
            ["--quiet"],
            is_flag=True,
            expose_value=False,
            callback=_keep,
            help="Print nothing but errors; the exit status tells.",
        ),
    ]


to_sarif = click.option(
    "--sarif",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    expose_value=False,
    callback=_keep,
    help="Write the findings into a SARIF file, too, for GitHub and editors.",
)
"""The option --sarif, for commands whose findings belong to lines of code."""


def is_asked(option: str) -> Any:
    """The value of an option of the current command; a false value if the user did not give it."""
    context = click.get_current_context(silent=True)
    return context and context.meta.get(f"backprobe.{option}")


def tell(text: str) -> None:
    """Print a remark on standard error, unless --quiet was given."""
    if not is_asked("quiet"):
        echo(text, err=True)


def show(found: object, data: Any = None) -> None:
    """Print the result of a command, as text or as data. A report is also written to the SARIF file, if one was given.

    The data of reports and recordings comes from their own methods. If ``found`` is None, no text is printed. Data
    includes the versions of Python and the frameworks, in case it is sent to somebody else.
    """
    if found is data is None:
        return
    if is_asked("json"):
        if isinstance(found, Report):
            data = found.to_dict()
        elif isinstance(found, backprobe.Recording):
            data = plain_record(found.record, found.outputs)
        document = {**data, "environment": environment()}
        click.get_current_context().meta[DOCUMENT] = json.dumps(document, allow_nan=False)
    elif found is not None and not is_asked("quiet"):
        echo(str(found))
    if is_asked("sarif") and isinstance(found, Report):
        _write(found, *is_asked("sarif"))


def _write(report: Report, path: Path, root: Path) -> None:
    context, ran = click.get_current_context(), sys.exc_info()[0] is None
    program = context.params["program"]
    place = context.meta.get(PLACE) or (program if (root / program).exists() else program.rpartition(":")[0])
    log = report.to_sarif(place, root=root, verb=str(context.info_name), ran=ran)
    try:
        write_whole(path, json.dumps(log, indent=2).encode())
    except OSError as error:
        said = {"asked": f"--sarif {path}", "call": "--sarif {}", "smaller": "another disk"}
        raise unwritable("the SARIF file", path, error, **said) from error


@contextmanager
def alone() -> Iterator[None]:
    """In a command with ``--json``, redirect everything printed inside this context to standard error.

    The document is printed when the context ends, so that standard output contains nothing else.
    """
    if not is_asked("json"):
        yield
        return
    meta, out, number, other = click.get_current_context().meta, sys.stdout, *map(number_of, (sys.stdout, sys.stderr))
    kept = None if number is None or other is None else os.dup(number)
    try:
        with redirect_stdout(sys.stderr):
            if number is not None and other is not None:  # also redirects the output of C code and child processes
                out.flush()
                os.dup2(other, number)
            yield
    finally:
        if number is not None and kept is not None:
            os.dup2(kept, number)
            os.close(kept)
        if DOCUMENT in meta:
            print(meta[DOCUMENT], file=out, flush=True)
