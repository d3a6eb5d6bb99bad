"""The arguments and options of ``bp.probe``, which many commands share."""

from __future__ import annotations

from collections.abc import Callable

import click

from backprobe.cli.declared import declared

BACKEND = click.option(
    "--backend", metavar="NAME", help="torch, tensorflow or jax; needed if the file imports several."
)
SELECT = click.option(
    "--select",
    "-s",
    metavar="PATTERN",
    multiple=True,
    help="Record only values that match this pattern; may be repeated.",
)
WORDS = click.argument("words", nargs=-1, metavar="[NAME=VALUE]...")


def probing(command: Callable[..., None]) -> Callable[..., None]:
    """Add the arguments and options of ``bp.probe`` to a command."""
    for option in [
        BACKEND,
        click.option("--nonfinite", is_flag=True, help="Record where NaN and Inf first occur."),
        declared("values", '"copy" copies every value immediately; the default is "alias".', metavar="HOW"),
        declared("strategy", "How gradients are captured: {}; the default is edges.", metavar="NAME"),
        declared("partials", '"true" adds local derivatives; "full" adds their full matrices.', metavar="WHICH"),
        click.option(
            "--cotangent",
            metavar="VALUE",
            help="The vector of the vector-Jacobian product, if the output is not a scalar.",
        ),
        click.option(
            "--wrt",
            metavar="NAME",
            multiple=True,
            help="Differentiate with respect to this argument only; may be repeated.",
        ),
        click.option(
            "--of",
            metavar="PATH",
            multiple=True,
            help="The output to differentiate: a path in the return value, or the name of a value. If repeated, "
            "backward runs for each output. For a script or a recording: one of its outputs.",
        ),
        SELECT,
        WORDS,
    ]:
        command = option(command)
    return command
