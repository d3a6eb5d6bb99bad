"""The commands of the verbs with their options, without logic of their own."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import nullcontext, redirect_stdout
from pathlib import Path
from typing import Any, Literal, NoReturn

import click

import backprobe as bp
from backprobe.backends.discover import load_arrays
from backprobe.cli import program as programs
from backprobe.cli import script
from backprobe.cli.command import main
from backprobe.cli.compared import compared
from backprobe.cli.declared import declared
from backprobe.cli.measured import measured
from backprobe.cli.output import is_asked, show, tell, to_sarif
from backprobe.cli.patched import refuse_patch, write_patch
from backprobe.cli.placement import ScriptVerb
from backprobe.cli.probing import BACKEND, SELECT, WORDS, probing
from backprobe.cli.recorded import of_one, recorded
from backprobe.cli.refusal import INTERRUPTED
from backprobe.cli.replayed import replayed
from backprobe.cli.run_commands import export, report
from backprobe.cli.view import view
from backprobe.cli.watched import watched
from backprobe.draw import check_path
from backprobe.errors import BadOption, NothingToDifferentiate, installed
from backprobe.show.plain import plain_value


@main.command(cls=ScriptVerb)
@click.argument("program", metavar="PROGRAM")
@probing
@click.option(
    "--save", "path", type=click.Path(), metavar="FOLDER", help="Save the recording in this folder; bp.load reads it."
)
@click.option("--overwrite", is_flag=True, help="Allow --save to replace an existing recording.")
def probe(program: str, words: tuple[str, ...], path: str | None, overwrite: bool, **options: Any) -> None:
    """Print each value that a function computes, and its gradient.

    The gradient is the derivative of the result with respect to the value. A script computes gradients itself, with
    backward(), autograd.grad or tape.gradient, and these are printed. The script is stopped when a second iteration
    computes gradients.

    \b
    backprobe probe toy.py:f x=3 w=2 b=1
    backprobe probe train.py --lr 0.1
    backprobe probe toy.py:f x='[1.0, 2.0]' w=2 b=1 --cotangent '[1, 1]'
    backprobe probe toy.py:f x=3 w=2 b=1 --save toy.recording
    backprobe probe toy.recording

    A value is a Python literal, or a text without quotes. A list of numbers becomes a tensor, as do randn(2,3),
    zeros(2,3), ones(2,3) and @file.npy. If no argument is floating point, integers are converted to floating point.
    If the function raises an exception, its traceback is printed.
    """
    if path is not None and programs.is_saved(program):
        programs.refuse_beside_recording([program], words, {"save": path})
    recording = recorded(program, words, **options)
    show(recording)
    if path is not None:
        recording.save(path, overwrite=overwrite)


@main.command(cls=ScriptVerb)
@click.argument("program", metavar="PROGRAM")
@to_sarif
@probing
@declared(
    "steps",
    "For a script: examine up to N iterations (default 2), and stop at the first problem or error.",
    metavar="N",
)
@click.option(
    "--patch",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Write the remedies that made gradients arrive when tried, as a patch for git apply.",
)
@click.option("--no-experiments", is_flag=True, help="Do not run the program again to test findings and remedies.")
def explain(
    program: str, words: tuple[str, ...], steps: int | None, patch: str | None, no_experiments: bool, **options: Any
) -> NoReturn:
    """Explain why a gradient is missing, or where NaN first occurs.

    \b
    backprobe explain toy.py:f x=3 w=2 b=1        every missing gradient
    backprobe explain toy.py:f u x=3 w=2 b=1      only the value u
    backprobe explain toy.py:f x=0 --nonfinite    NaN and Inf
    backprobe explain toy.recording u             a saved recording
    backprobe explain toy.py:f x=3 w=2 b=1 --patch fix.diff
    backprobe explain train.py --lr 0.1           a whole script
    backprobe explain -m package.train --lr 0.1   a module, as with python -m

    A script runs as with "python train.py --lr 0.1", and computes its gradients itself: with backward(),
    tape.gradient, model.fit or jax.grad. The first two iterations that compute gradients are examined. The first one
    with a missing gradient or an error is explained, and the script is stopped. With --nonfinite, all iterations are
    examined until one has NaN or Inf. PyTorch, TensorFlow and JAX run without compiling. Options of backprobe come
    before the script; options after it are passed to the script.

    The exit status is 1 if a problem was found.
    """
    if patch is not None:
        refuse_patch(program, words, patch)
    if programs.is_script(program):
        report = script.judged(program, words, steps=steps, experiments=not no_experiments, **options)
    else:
        _refuse_steps(program, steps)
        report = _explained(program, words, not no_experiments, **options)
    _answer(report, after=None if patch is None else lambda: write_patch(report, patch))


def _refuse_steps(program: str, steps: int | None) -> None:
    if steps is not None:
        raise BadOption(
            f"--steps is for scripts, and {program} is recorded once",
            asked=programs.asked(program, "--steps", str(steps)),
            next=programs.asked(program),
        )


def _explained(program: str, words: tuple[str, ...], experiments: bool, **options: Any) -> bp.Report:
    named, words = _first_name(words)
    if named and options["nonfinite"]:
        raise BadOption(
            "--nonfinite is about all values",
            asked=programs.asked(program, *named, "--nonfinite"),
            next=programs.asked(program, "--nonfinite"),
        )
    try:
        recording = recorded(program, words, **options)
    except NothingToDifferentiate as error:
        if error.recording is not None:
            return bp.explain(error.recording, *named, experiments=experiments)
        if not words:
            error.add_note(
                f"If the function calls backward() itself, run its file as a script: "
                f"{programs.asked(program.rpartition(':')[0])}"
            )
        raise
    return bp.explain(recording, *named, experiments=experiments)


@main.command()
@click.argument("program", metavar="FILE:FUNCTION")
@WORDS
@click.option(
    "--skip", multiple=True, metavar="NAME", help="Do not check this function or class of the file; may be repeated."
)
@declared("order", "1, or 2 for second derivatives as well.", default=1, show_default=True)
@BACKEND
@to_sarif
@click.option("--strict", is_flag=True, help="Exit with 1 also if some could not be checked.")
def check(
    program: str, words: tuple[str, ...], skip: tuple[str, ...], order: Literal[1, 2], backend: str | None, strict: bool
) -> NoReturn:
    """Compare each derivative with finite differences.

    \b
    backprobe check toy.py:f x=3 w=2 b=1

    The exit status is 1 if a derivative is wrong; with --strict also if one could not be checked.
    """
    _answer(programs.checked(program, words, skip, backend, order), strict)


@main.command()
@click.argument("program", metavar="FILE:FUNCTION")
@WORDS
@click.option(
    "--bounds",
    multiple=True,
    metavar="NAME=RANGE",
    help="The range of an argument, as in x='(-1, 1)'; x=None keeps it unchanged; may be repeated.",
)
@declared("seed", "The seed of the random numbers in each run.", default=0, show_default=True)
@declared("tries", "The number of inputs that are tried for each operand.", default=100, show_default=True)
@BACKEND
def provoke(
    program: str, words: tuple[str, ...], bounds: tuple[str, ...], seed: int, tries: int, backend: str | None
) -> NoReturn:
    """Search for an input near this one that gives NaN or Inf.

    \b
    backprobe provoke toy.py:f x=3 w=2 b=1 --bounds x='(-3, 3)'

    The exit status is 1 if such an input was found.
    """
    _answer(programs.provoked(program, words, bounds, seed, tries, backend))


@main.command(cls=ScriptVerb)
@click.argument("program", metavar="PROGRAM")
@probing
@to_sarif
def health(program: str, words: tuple[str, ...], **options: Any) -> NoReturn:
    """Look for dead units and vanishing or exploding gradients.

    \b
    backprobe health toy.py:f x=3 w=2 b=1
    backprobe health toy.recording
    backprobe health train.py --lr 0.1    the first iterations of a script

    The exit status is 1 if a problem was found.
    """
    if programs.is_script(program):
        _answer(script.judged(program, words, script.healthy, **options))
    _answer(script.healthy(of_one(program, words, **options)))


@main.command(cls=ScriptVerb)
@click.argument("program", metavar="PROGRAM")
@click.argument("path", type=click.Path(dir_okay=False))
@probing
@declared("depth", "Draw modules and functions at depth N as one box; 1 is the outermost.", metavar="N")
@click.option(
    "--open", multiple=True, metavar="NAME", help="Draw the inside of this module or function anyway; may be repeated."
)
@click.option("--roll", is_flag=True, help="Draw repeated modules as one, and repeated bindings of a loop as one.")
@click.option("--contributions", is_flag=True, help="Write upstream × local = contribution on the edges.")
@declared(
    "apart",
    "If a value flows into N or more others, write its name beside each instead of drawing edges.",
    metavar="N",
    default=12,
    show_default=True,
)
@declared("direction", "The direction of the drawing: {}.", metavar="WAY")
def draw(program: str, path: str, words: tuple[str, ...], **options: Any) -> None:
    """Draw the computation into the file PATH: .svg, .pdf, .png or .html.

    \b
    backprobe draw toy.py:f toy.svg x=3 w=2 b=1
    backprobe draw train.py toy.svg
    backprobe draw toy.recording toy.png

    A function or script is recorded with --partials true, to show local derivatives on the edges.
    """
    if "=" in path and not Path(path).suffix:
        raise BadOption(
            "no file to draw into",
            asked=programs.asked(program, path, *words),
            next=programs.asked(program, "toy.svg", path, *words),
        )
    check_path(path)
    drawn = {name: options.pop(name) for name in ("depth", "open", "roll", "contributions", "apart", "direction")}
    recording = of_one(program, words, path, by_default=True, **options)
    if drawn["contributions"]:
        programs.refuse_without_partials(program, recording)
    bp.draw(recording, path, **drawn)
    show(f"the circuit: {path}", {"drawing": path})


@main.command(cls=ScriptVerb)
@click.argument("program", metavar="PROGRAM")
@click.argument("name", metavar="VALUE")
@probing
def derive(program: str, name: str, words: tuple[str, ...], **options: Any) -> None:
    """Write out a derivative by the chain rule.

    This is the derivative of the result with respect to VALUE.

    \b
    backprobe derive toy.py:f x x=3 w=2 b=1      for the result
    backprobe derive toy.py:f x v x=3 w=2 b=1    for the value v
    backprobe derive train.py x                  for a script's output
    backprobe derive toy.recording x

    A function or script is recorded with --partials true, because the chain rule needs local derivatives.
    """
    if name.partition("=")[0].isidentifier() and "=" in name:
        raise BadOption(
            "no value to differentiate with respect to",
            asked=programs.asked(program, name, *words),
            next=programs.asked(program, name.partition("=")[0], name, *words),
        )
    of, words = ((), words) if programs.is_script(program) else _first_name(words)
    recording = of_one(program, words, name, *of, by_default=True, **options)
    programs.refuse_without_partials(program, recording, is_wanted=options.get("partials") is not False)
    derivation = bp.derive(recording, name, *of)
    value = plain_value(derivation.value, load_arrays(recording.record.backend))
    show(derivation, {**vars(derivation), "value": value})


@main.command(short_help="Find where two programs or recordings first differ.")
@click.argument("first", metavar="A")
@click.argument("second", metavar="B")
@probing
@click.option(
    "--rename",
    multiple=True,
    metavar="A=B",
    help="A pattern of names in A, and the pattern in B, as in 'h.*=layers.*'; may be repeated.",
)
@click.option(
    "--layout",
    multiple=True,
    metavar="NAME=AXES",
    help="The layout of an array of B: T, or the order of its axes, as in '**.kernel=T'; may be repeated.",
)
@click.option(
    "--noise",
    multiple=True,
    metavar="FOLDER",
    help="Another equally correct recording of A, to measure rounding errors; may be repeated.",
)
@declared("convention", "The layout of B's parameters: {}; by default inferred from their names.", metavar="NAME")
@click.option("--strict", is_flag=True, help="Exit with 1 also if some could not be compared.")
@click.option(
    "--html",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Also write a self-contained page that shows both side by side.",
)
def diff(first: str, second: str, words: tuple[str, ...], strict: bool, **options: Any) -> NoReturn:
    """Compare B with a reference A, and find where they first differ, forward and backward.

    \b
    backprobe diff toy.py:f ported.py:f x=3 w=2 b=1
    backprobe diff reference.recording ported.py:f x=3 w=2 b=1
    backprobe diff reference.recording ported.recording
    backprobe diff reference.recording ported.recording --html diff.html

    Both functions get the same arguments and the same random numbers.

    The exit status is 1 if they differ; with --strict also if something could not be compared.
    """
    _answer(compared(first, second, words, **options), strict)


@main.command(cls=ScriptVerb, short_help="Run a PyTorch script, and record its models while they train.")
@click.option("--folder", metavar="FOLDER", help="The folder for the runs; the default is the script's name with .run.")
@click.option("--append", is_flag=True, help="Continue an existing run after its last step.")
@declared("every", "Measure every N-th step.", default=1, show_default=True, metavar="N")
@SELECT
@declared(
    "what",
    "The measured quantity: {}; may be repeated. Default: all except update, which needs a copy of the parameters.",
    multiple=True,
    metavar="KIND",
)
@declared("histogram", "Record a histogram of magnitudes in every N-th step; 0 means never.", default=0, metavar="N")
@click.option("--capture", metavar="STEP", help="Stop at the first NaN or Inf, and save that step in this folder.")
@click.option(
    "--view", is_flag=True, help="Show the runs in a browser during the training and afterwards, until Ctrl-C."
)
@click.argument("script", metavar="SCRIPT")
@click.argument("words", nargs=-1, metavar="[ARGS]...")
def watch(script: str, words: tuple[str, ...], folder: str | None, append: bool, **options: Any) -> NoReturn:
    """Run a PyTorch script, and record statistics of its models while they train.

    \b
    backprobe watch train.py --lr 0.1
    backprobe watch --every 10 --folder runs/exp1 train.py --lr 0.1
    backprobe watch --capture bad-step train.py

    The script runs as with "python train.py --lr 0.1". Each model that an optimizer trains gets a run of its own, in a
    folder named after the model's class. The command backprobe report shows a run. Options of backprobe come before
    the script; options after it are passed to the script.

    The exit status is that of the script.
    """
    watched(script, words, folder, append, **options)


@main.command(cls=ScriptVerb, short_help="Find what a script keeps for backward, and what keeps old graphs alive.")
@declared("steps", "Stop the script after its N-th step.", metavar="N", default=10, show_default=True)
@click.option("--no-experiments", is_flag=True, help="Do not run the script again to try remedies.")
@click.argument("script", metavar="SCRIPT")
@click.argument("words", nargs=-1, metavar="[ARGS]...")
def memory(script: str, words: tuple[str, ...], steps: int, no_experiments: bool) -> NoReturn:
    """Run the first steps of a script, and print what it keeps for backward and what outlives its step.

    \b
    backprobe memory train.py --lr 0.1
    backprobe memory --steps 20 train.py --lr 0.1

    The script runs as with "python train.py --lr 0.1", until an optimizer's step() has been called N times. Options of
    backprobe come before the script; options after it are passed to the script.

    These outlive their step: graphs and arrays that a variable keeps for several steps, hooks that accumulate, and
    gradients that are still allocated as zeros in the next step. If a changed line might free them, the script's steps
    run again with that line, unless the script has effects outside its process.

    In TensorFlow, a step is an update by a Keras optimizer outside compiled functions. In JAX, the end of a step cannot
    be detected: use bp.memory() in the script.

    The exit status is 1 if something outlives its step.
    """
    measured(script, words, steps, not no_experiments)


del main.commands["view"]  # the command exists already; adding it again moves it to this place of the list
for on_runs in (report, view, export):
    main.add_command(on_runs)


@main.command(short_help="Run a captured step again, and find where NaN first occurs.")
@click.argument("step", metavar="STEP")
@click.argument("program", metavar="[FILE:FUNCTION]", default="")
@WORDS
@click.option(
    "--model",
    "models",
    multiple=True,
    metavar="FILE:FUNCTION",
    help="For a function of JAX: a function that makes a model among its arguments; may be repeated.",
)
def replay(step: str, program: str, words: tuple[str, ...], models: tuple[str, ...]) -> NoReturn:
    """Run a captured step again, forward and backward, and find where NaN or Inf first occurs.

    \b
    backprobe replay bad-step model.py:make_model
    backprobe replay bad-step model.py:make_model width=64

    STEP is the folder that bp.guard(model, capture=STEP) or backprobe watch --capture STEP wrote. FILE:FUNCTION is a
    function or class that makes the model from the given arguments, or the model itself. For a captured gradient of
    JAX, it is the function that was differentiated.

    The exit status is 1 if NaN or Inf occurs again.
    """
    _answer(replayed(step, program, words, models))


@main.command()
@click.option(
    "--folder",
    default="backprobe-demo",
    show_default=True,
    type=click.Path(file_okay=False),
    help="The folder for the drawings.",
)
def demo(folder: str) -> None:
    """Show a small graph, the chain rule, and the inside of a GPT-2."""
    installed("torch", asked="backprobe demo")
    from backprobe import demo as shown  # imported here because this imports PyTorch, which no other command needs

    with redirect_stdout(None) if is_asked("quiet") else nullcontext():
        drawings = shown.run(Path(folder))
    show(None, {"drawings": drawings})


def _first_name(words: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    # Split the words into the name of a value, if the first word is a name, and the arguments.
    count = int(bool(words) and "=" not in words[0])
    return words[:count], words[count:]


def _answer(report: bp.Report, strict: bool | None = None, *, after: Callable[[], None] | None = None) -> NoReturn:
    # Print a report, and exit with 1 if it is not ``ok`` or, with ``strict``, not complete. ``strict`` is None if the
    # command has no --strict.
    show(report)
    if after is not None:
        after()
    if report.ok and not report.complete and strict is False and INTERRUPTED not in click.get_current_context().meta:
        tell("not everything could be checked; with --strict the exit status would be 1")
    sys.exit(int(not report.ok or bool(strict and not report.complete)))
