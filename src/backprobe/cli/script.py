"""A whole script on the command line: it runs as ``python FILE`` would, and is explained."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

import backprobe as bp
from backprobe.errors import BadOption
from backprobe.probe.script import Script
from backprobe.probe.training_loop import LISTENING


def explained(file: str, words: Sequence[str], *, nonfinite: bool, backend: str | None, **options: Any) -> bp.Report:
    """The report on a script. Where it raises, or exits with a status, the report is printed before that comes out."""
    _check(file, {**options, "backend": backend if backend != LISTENING else None})
    script = Script(bp.probe(nonfinite=nonfinite), file, words)
    try:
        script.run()
    except SystemExit:
        _print(script.report())
        raise
    except Exception as error:
        sys.excepthook(type(error), script.shown(error), error.__traceback__)
        _print(script.report())
        raise SystemExit(1) from error
    report = script.report()
    if report is None:
        raise BadOption(
            f"{file} computed nothing with PyTorch", asked=f"backprobe explain {file}",
            why="without a function, the file runs as a script, up to its own backward()",
            next=f"backprobe explain {file}:f x=3, for a function f in it",
        )  # fmt: skip
    return report


def _check(file: str, options: dict[str, Any]) -> None:
    if not Path(file).is_file():
        raise BadOption(
            f"there is no script {file!r}", asked=f"backprobe explain {file}",
            next="backprobe explain train.py, or backprobe explain toy.py:f x=3 for a function in a file",
        )  # fmt: skip
    for name in (name.replace("_", "-") for name, value in options.items() if value):
        raise BadOption(
            f"--{name} is for functions, and {file} runs as a script", asked=f"backprobe explain {file}",
            why="a script runs as it is written; it must use PyTorch, and call backward() itself",
            next=f"backprobe explain {file}:f x=3 --{name} ..., for a function f in it; or, if the script has "
            f"an option of this name, backprobe explain {file} -- --{name} ...",
        )  # fmt: skip


def _print(report: bp.Report | None) -> None:
    if report is not None:
        click.echo(str(report))
