"""The command line: it mirrors the API and holds no logic of its own."""

from __future__ import annotations

import ast
import importlib.util
import sys
from pathlib import Path
from typing import Any

import click

import backprobe as bp
from backprobe.errors import BackprobeError, BadOption
from backprobe.names import nearest


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(bp.__version__, prog_name="backprobe")
def main() -> None:
    """The gradient of any value inside a computation, by name."""


@main.command()
def demo() -> None:
    """The toy graph, gradients in the order of backward, and the inside of a small GPT-2."""
    from backprobe import demo as shown  # imports PyTorch, which no other command needs

    shown.run()


@main.command("run", context_settings={"ignore_unknown_options": True})
@click.argument("function", metavar="FILE:FUNCTION")
@click.argument("arguments", nargs=-1, metavar="[NAME=VALUE]...")
@click.option("--select", "-s", multiple=True, help="Record only what this pattern matches; may be repeated.")
@click.option("--of", help="Path of what to differentiate in the return value.")
@click.option("--wrt", multiple=True, help="Differentiate only this argument; may be repeated.")
@click.option("--cotangent", help="Vector of the vector-Jacobian product, for an output that is not a scalar.")
@click.option("--backend", help="The framework, where the file imports several.")
@click.option("--save", "path", type=click.Path(), help="Save the recording into this folder.")
def run_function(
    function: str, arguments: tuple[str, ...], select: tuple[str, ...], of: str | None, wrt: tuple[str, ...],
    cotangent: str | None, backend: str | None, path: str | None,
) -> None:  # fmt: skip
    """Record a function of your own: every value it binds, and the gradient of its result towards each.

    \b
    backprobe run toy.py:f x=3 w=2 b=1

    A value is a Python literal; a list of numbers becomes a tensor.
    """
    try:
        target = _load(function)
        probed = bp.probe(
            target, list(select) or None, of=of, wrt=list(wrt) or None, backend=backend,
            cotangent=None if cotangent is None else _literal("cotangent", cotangent),
        )  # fmt: skip
        recording = probed(**dict(_argument(text) for text in arguments))
        click.echo(str(recording))
        if path is not None:
            recording.save(path)
    except BackprobeError as error:
        click.echo(f"{type(error).__name__}: {error}", err=True)
        sys.exit(1)


def _load(function: str) -> Any:
    """The function named by ``FILE:FUNCTION``; the file is imported, with its own folder on the path."""
    text, colon, name = function.rpartition(":")
    file = Path(text)
    if not colon or not file.is_file():
        raise BadOption(
            f"{function!r} names no function in a file", asked=f"backprobe run {function}",
            found="no colon" if not colon else f"no file {text!r}", next="backprobe run toy.py:f x=3",
        )  # fmt: skip
    module_name = file.stem
    spec = importlib.util.spec_from_file_location(module_name, file.resolve())
    if spec is None or spec.loader is None:
        raise BadOption(f"{text!r} is no Python file", asked=f"backprobe run {function}", next="a .py file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module
    sys.path.insert(0, str(file.resolve().parent))
    spec.loader.exec_module(module)
    found: Any = module
    for step in name.split("."):
        if not hasattr(found, step):
            functions = [known for known, value in vars(module).items() if callable(value) and known[:1] != "_"]
            close = nearest(name, functions) or functions
            raise BadOption(
                f"{text} has no function {name!r}", asked=f"backprobe run {function}",
                found=", ".join(functions) or "no functions",
                next=f"backprobe run {text}:{close[0]}" if close else "a function",
            )  # fmt: skip
        found = getattr(found, step)
    return found


def _argument(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise BadOption(f"{text!r} is no argument", asked=text, found="no NAME=VALUE", next="x=3")
    return name, _literal(name, value)


def _literal(name: str, text: str) -> Any:
    """A Python literal; nothing is evaluated. A list of numbers is an array, for the backend to take over."""
    import numpy

    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError) as error:
        raise BadOption(
            f"{text!r} is no Python literal", asked=f"{name}={text}", found=str(error), next=f"{name}=3.0",
        ) from error  # fmt: skip
    if isinstance(value, list):
        array = numpy.array(value)
        return array.astype(numpy.float32) if array.dtype.kind == "f" else array
    return value
