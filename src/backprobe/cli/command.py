"""The command ``backprobe``. The module of ``view`` is imported immediately; those of all other verbs only when needed.

The server of ``view`` runs for a long time, and should not keep the other verbs in memory.
"""

from __future__ import annotations

import click

import backprobe as bp
from backprobe.cli.refusal import Verbs
from backprobe.cli.view import view


@click.group(
    cls=Verbs,
    commands={"view": view},
    others="backprobe.cli.verbs",
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(bp.__version__, prog_name="backprobe")
def main() -> None:
    """The gradient of any value inside a computation, by name.

    \b
    backprobe probe toy.py:f x=3 w=2 b=1

    Exit status: 0 if no problem was found, 1 if one was found, 2 for bad input, 3 if the program raised an exception.
    A status with which a script itself exits is passed on, and watch exits with 1 if its script raises.
    """
