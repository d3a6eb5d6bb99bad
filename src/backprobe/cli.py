"""The command line: it mirrors the API and holds no logic of its own."""

from __future__ import annotations

import ast
import importlib.util
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

import click

import backprobe as bp
from backprobe.draw import check_path
from backprobe.errors import BackprobeError, BadOption, NothingToDifferentiate
from backprobe.probe.script import Script
from backprobe.probe.training_loop import LISTENING
from backprobe.record.names import nearest


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(bp.__version__, prog_name="backprobe")
def main() -> None:
    """The gradient of any value inside a computation, by name."""


@main.command()
@click.option("--into", default="backprobe-demo", show_default=True, type=click.Path(file_okay=False),
              help="The folder that circuits are drawn into.")  # fmt: skip
def demo(into: str) -> None:
    """The toy graph and its circuit, the chain rule, and the inside of a small GPT-2."""
    from backprobe import demo as shown  # imports PyTorch, which no other command needs

    try:
        shown.run(Path(into))
    except BackprobeError as error:
        _fail(error)


def probing(command: Callable[..., None]) -> Callable[..., None]:
    """The options of a command that probes a function."""
    for option in reversed([
        click.option("--select", "-s", multiple=True, help="Record only what this pattern matches; may be repeated."),
        click.option("--of", help="Path of what to differentiate in the return value."),
        click.option("--wrt", multiple=True, help="Differentiate only this argument; may be repeated."),
        click.option("--cotangent", help="Vector of the vector-Jacobian product, for an output that is not a scalar."),
        click.option("--backend", help="The framework, where the file imports several."),
    ]):  # fmt: skip
        command = option(command)
    return command


@main.command("run")
@click.argument("function", metavar="FILE:FUNCTION")
@click.argument("arguments", nargs=-1, metavar="[NAME=VALUE]...")
@probing
@click.option("--save", "path", type=click.Path(), help="Save the recording into this folder.")
@click.option("--draw", "drawing", type=click.Path(dir_okay=False), help="Draw the circuit: .svg or .png.")
def run_function(
    function: str, arguments: tuple[str, ...], path: str | None, drawing: str | None, **options: Any
) -> None:
    """Record a function of your own: every value it binds, and the gradient of its result towards each.

    \b
    backprobe run toy.py:f x=3 w=2 b=1

    A value is a Python literal; a list of numbers becomes a tensor. What the function itself raises is shown as
    Python shows it.
    """
    try:
        if drawing is not None:
            check_path(drawing)
        recording = _recorded(function, arguments, partials=drawing is not None, **options)
        click.echo(str(recording))
        if drawing is not None:
            bp.draw(recording, drawing)
            click.echo(f"the circuit: {drawing}")
        if path is not None:
            _save(recording, path)
    except BackprobeError as error:
        _fail(error)


@main.command("explain", context_settings={"ignore_unknown_options": True})
@click.argument("program", metavar="FILE[:FUNCTION]")
@click.argument("arguments", nargs=-1, metavar="[VALUE_NAME] [NAME=VALUE]...")
@probing
@click.option("--nonfinite", is_flag=True, help="Say where NaN and Inf were born; without a value's name.")
def explain_program(program: str, arguments: tuple[str, ...], **options: Any) -> None:
    """Record a function of your own, and say why a value has no gradient, or that it has one; of every value if none
    is named.

    \b
    backprobe explain toy.py:f u x=3 w=2 b=1

    With --nonfinite it says at which lines NaN and Inf began, forward and backward.

    \b
    backprobe explain toy.py:f x=0 --nonfinite

    The arguments and options are those of "backprobe run". Without a function the file is run as a script, with the
    arguments that stand behind it, and must call backward() itself. The first turn of its loop that does is explained;
    with --nonfinite the first in which NaN or Inf is found. What looks like an option of ours goes behind "--".

    \b
    backprobe explain train.py --lr 0.1 --nonfinite

    The exit status is 1 if something was found.
    """
    try:
        report = (_of_function if ":" in program else _of_script)(program, arguments, **options)
    except BackprobeError as error:
        _fail(error)
    click.echo(str(report))
    sys.exit(0 if report.ok else 1)


def _of_function(program: str, arguments: tuple[str, ...], **options: Any) -> bp.Report:
    named = arguments[:1] if arguments and "=" not in arguments[0] else ()
    if named and options["nonfinite"]:
        raise BadOption(
            "--nonfinite is of all values", asked=f"backprobe explain {program} {named[0]} --nonfinite",
            next=f"backprobe explain {program} --nonfinite",
        )  # fmt: skip
    try:
        recording = _recorded(program, arguments[len(named) :], command="explain", **options)
    except NothingToDifferentiate as error:
        if not arguments[len(named) :]:
            error.add_note(f"a function that calls backward() itself: backprobe explain {program.rpartition(':')[0]}, "
                           "which runs the file as a script")  # fmt: skip
        raise
    return bp.explain(recording, *named)


def _of_script(
    program: str, arguments: tuple[str, ...], nonfinite: bool, backend: str | None, **options: Any
) -> bp.Report:
    """What is explained of a script; where it raises, or exits with a status, that is printed before it goes on."""
    if not Path(program).is_file():
        raise BadOption(
            f"there is no script {program!r}", asked=f"backprobe explain {program}",
            next="backprobe explain train.py, or backprobe explain toy.py:f x=3 for a function in a file",
        )  # fmt: skip
    for option in [name for name, value in options.items() if value] + ["backend"] * (backend not in (None, LISTENING)):
        raise BadOption(
            f"--{option} is for functions, and {program} runs as a script", asked=f"backprobe explain {program}",
            why="a script runs as it is written, and PyTorch is the framework whose scripts call backward() themselves",
            next=f"backprobe explain {program}:f x=3 --{option} ..., for a function f in it; or, where the script has "
            f"such an option, backprobe explain {program} -- --{option} ...",
        )  # fmt: skip
    script = Script(bp.probe(nonfinite=nonfinite), program, arguments)
    try:
        script.run()
    except SystemExit:
        _say(script.report())
        raise
    except Exception as error:
        sys.excepthook(type(error), script.shown(error), error.__traceback__)
        _say(script.report())
        raise SystemExit(1) from error
    report = script.report()
    if report is None:
        raise BadOption(
            f"nothing was computed with PyTorch while {program} ran", asked=f"backprobe explain {program}",
            why="it is run as a script: what it computes itself, up to its own backward(), is explained",
            next=f"backprobe explain {program}:f x=3, for a function f in it",
        )  # fmt: skip
    return report


def _say(report: bp.Report | None) -> None:
    if report is not None:
        click.echo(str(report))


@main.command("check")
@click.argument("function", metavar="FILE:FUNCTION")
@click.argument("arguments", nargs=-1, metavar="[NAME=VALUE]...")
@click.option("--skip", multiple=True, metavar="NAME", help="Leave this function or class of the file out.")
@click.option("--backend", help="The framework, where the file imports several.")
def check_function(function: str, arguments: tuple[str, ...], skip: tuple[str, ...], backend: str | None) -> None:
    """Check each derivative of a function of your own against finite differences.

    \b
    backprobe check toy.py:f x=3 w=2 b=1

    Values are written as for run. The exit status is 1 if a derivative is wrong, or none could be judged.
    """
    try:
        target = _load(function, "check")
        left_out = [_beside(target, function, name) for name in skip]
        report = bp.check(target, skip=left_out, backend=backend)(**_arguments(arguments))
    except BackprobeError as error:
        _fail(error)
    click.echo(str(report))
    sys.exit(0 if report.ok else 1)


def _recorded(
    function: str, arguments: tuple[str, ...], select: tuple[str, ...], of: str | None, wrt: tuple[str, ...],
    cotangent: str | None, backend: str | None, partials: bool = False, nonfinite: bool = False, command: str = "run",
) -> bp.Recording:  # fmt: skip
    keywords = _arguments(arguments)
    probed = bp.probe(
        _load(function, command), list(select) or None, of=of, wrt=list(wrt) or None, backend=backend,
        cotangent=None if cotangent is None else _literal("cotangent", cotangent), partials=partials,
        nonfinite=nonfinite,
    )  # fmt: skip
    return probed(**keywords)


def _fail(error: BackprobeError) -> NoReturn:
    click.echo("\n".join([f"{type(error).__name__}: {error}", *getattr(error, "__notes__", ())]), err=True)
    sys.exit(1)


def _load(function: str, command: str = "run") -> Any:
    """The function named by ``FILE:FUNCTION``; the file is imported, with its own folder on the path."""
    text, colon, name = function.rpartition(":")
    file = Path(text)
    if not colon or not file.is_file():
        raise BadOption(
            f"{function!r} names no function in a file", asked=f"backprobe {command} {function}",
            found="no colon" if not colon else f"no file {text!r}", next=f"backprobe {command} toy.py:f x=3",
        )  # fmt: skip
    module_name = file.stem
    if module_name in sys.modules:  # a file random.py never takes the place of the module
        module_name = f"backprobe run {file.stem}"
    spec = importlib.util.spec_from_file_location(module_name, file.resolve())
    if spec is None or spec.loader is None:
        raise BadOption(f"{text!r} is no Python file", asked=f"backprobe {command} {function}", next="a .py file")
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
                f"{text} has no function {name!r}", asked=f"backprobe {command} {function}",
                found=", ".join(functions) or "no functions",
                next=f"backprobe {command} {text}:{close[0]}" if close else "a function",
            )  # fmt: skip
        found = getattr(found, step)
    return found


def _beside(target: Any, function: str, name: str) -> Any:
    """What a name is in the file of a function."""
    known = vars(sys.modules[target.__module__])
    if name not in known:
        raise BadOption(
            f"{function.rpartition(':')[0]} has no {name!r} to leave out", asked=f"--skip {name}",
            found=", ".join(nearest(name, list(known))) or "no name like it", next="--skip with a name of the file",
        )  # fmt: skip
    return known[name]


def _save(recording: bp.Recording, path: str) -> None:
    try:
        recording.save(path)
    except OSError as error:
        raise BadOption(
            f"the recording cannot be saved into {path}", asked=f"--save {path}", found=str(error),
            next="--save with a folder that can be made",
        ) from error  # fmt: skip


def _arguments(texts: Sequence[str]) -> dict[str, Any]:
    """The arguments of the function by name."""
    found: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.isidentifier():
            raise BadOption(f"{text!r} is no argument", asked=text, found="no NAME=VALUE", next="x=3")
        if name in found:
            raise BadOption(f"{name!r} is given twice", asked=" ".join(texts), next=text)
        found[name] = _literal(name, value)
    return found if any(map(_is_floating, found.values())) else {name: _floating(v) for name, v in found.items()}


def _is_floating(value: Any) -> bool:
    return isinstance(value, float | complex) or getattr(getattr(value, "dtype", None), "kind", "") in ("f", "c")


def _floating(value: Any) -> Any:
    """Where nothing at all is floating, integers are meant to be differentiated, alone and in lists."""
    if type(value) is int:
        return float(value)
    return value.astype("float32") if getattr(getattr(value, "dtype", None), "kind", "") in ("i", "u") else value


def _literal(name: str, text: str) -> Any:
    """A Python literal; nothing is evaluated. A list of numbers is an array, for the backend to take over."""
    import numpy

    try:
        value = ast.literal_eval(text)
        array = numpy.array(value) if isinstance(value, list) else None
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError) as error:
        raise BadOption(
            f"{text!r} is no Python literal, or a list of unequal lists", asked=f"{name}={text}",
            found=_reason(error), next=f"{name}=3.0, or {name}='[1.0, 2.0]' for a tensor",
        ) from error  # fmt: skip
    if array is None or array.dtype.kind not in "biufc":
        return value
    return array.astype(SINGLE[array.dtype.kind]) if array.dtype.kind in SINGLE else array


SINGLE = {"f": "float32", "c": "complex64"}  # what PyTorch, too, makes of a list of Python numbers


def _reason(error: Exception) -> str:
    """What is wrong with a literal; Python itself gives the address of a node of the syntax tree."""
    if isinstance(error, SyntaxError):
        return error.msg
    return "a name or an expression" if "malformed node" in str(error) else str(error)
