"""Runs a whole script or module in the same way as ``python``, and reports on it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import click

import backprobe as bp
from backprobe.backends.discover import BACKENDS
from backprobe.backends.facts import Options
from backprobe.cli.module import main_program
from backprobe.cli.output import show, tell
from backprobe.cli.program import asked
from backprobe.cli.program_error import RAISED
from backprobe.cli.program_error import show as show_error
from backprobe.cli.progress import progress
from backprobe.cli.refusal import STOPPED, TYPED
from backprobe.cli.stopping import UNREAD, is_unread
from backprobe.cli.unseen import asks_for_help, no_gradient_seen, none_to_show
from backprobe.errors import BadOption
from backprobe.explain.rebound import with_rebound
from backprobe.health.missing import LACKING
from backprobe.probe.probe_class import Probe
from backprobe.probe.script import USUAL, Script
from backprobe.probe.script_again import looked_at_again
from backprobe.probe.script_compiled import compiled_error, ends_compiled
from backprobe.probe.script_experiments import Beginning, ScriptExperiments
from backprobe.probe.script_numbers import with_numbers
from backprobe.probe.script_recording import ScriptRecording

COMPILED = "the script raises this only where {} compiles its functions: run again without compiling, it did not"
UNCOMPILED = (
    "this is raised only without compiling, as scripts are observed: run again compiled, the script came to its end"
)


def judged(
    program: str,
    words: Sequence[str],
    judge: Callable[[bp.Recording], bp.Report] = bp.explain,
    *,
    nonfinite: bool,
    backend: str | None,
    steps: int | None = None,
    experiments: bool = False,
    **options: Any,
) -> bp.Report:
    """Run a script and return the report on it.

    If the script raises, its error and then the report so far are printed, and SystemExit is raised. If it exits with
    a status other than 0, the report is printed before SystemExit goes on.
    """
    file, spec = main_program(program)
    _refuse_options(program, file, backend, options)
    more = ""
    if steps is not None and nonfinite:
        raise BadOption(
            "--nonfinite looks at all iterations, up to the first with NaN or Inf",
            asked=asked(program, *words, options=("--nonfinite", "--steps", str(steps))),
            next=asked(program, *words, options=("--nonfinite",)),
        )
    if steps is None and judge is bp.explain:
        more = _with_steps(10)
    probe: Probe[..., Any] = Probe(None, options=Options(nonfinite=nonfinite), backend=backend)
    script = Script(probe, file, words, judge, steps or USUAL, spec, more)
    with _ending(script.report), progress(lambda: f"{program} runs, {script.iterations} iterations"):
        beginning = Beginning()
        try:
            script.run()
        except Exception as error:
            if is_unread(error):
                raise SystemExit(UNREAD) from None
            again = script.experiments(beginning) if experiments else None
            if again is not None and ends_compiled(again):
                error.add_note(f"backprobe: {UNCOMPILED}")
            raise
    report = script.report()
    if report is None and script.has_exited and asks_for_help(words):
        raise SystemExit
    if report is None:
        raise no_gradient_seen(program, file, script.elsewhere.started)
    again = script.experiments(beginning) if experiments else None
    return report if again is None else _tried(report, script, again)


def _tried(report: bp.Report, script: Script, again: ScriptExperiments) -> bp.Report:
    # Return the report after experiments. If the script fails where it is compiled, its error is printed.
    if script.probe.options.nonfinite:
        return with_numbers(report, again) if script.passes else report
    error = compiled_error(again, script.stopped_at, script.gradients or script.iterations) if report.ok else None
    if error is not None:
        show_error(error)
        tell(COMPILED.format(again.backend.title))
        raise SystemExit(RAISED) from error
    return again.with_tried(looked_at_again(report, script, again)) if script.passes else report


def healthy(recording: bp.Recording) -> bp.Report:
    """The report of ``health``. For a finding about a missing gradient, the remedy is a shell command."""
    report, typed = bp.health(recording), click.get_current_context().meta[TYPED].replace("health", "explain", 1)
    found = [replace(one, remedy=f"{typed} says why") if one.kind in LACKING else one for one in report.findings]
    return replace(report, findings=tuple(found))


def _with_steps(number: int) -> str:
    # The typed command, with a given number of iterations.
    context = click.get_current_context()
    verb, count = f"backprobe {context.info_name}", os.environ.get("LOCAL_WORLD_SIZE")
    launched = "" if count is None else f"torchrun --nproc-per-node {count} -m "
    return f"{launched}{verb} --steps {number}{context.meta[TYPED].removeprefix(verb)}"


def recorded(
    program: str,
    words: Sequence[str],
    *,
    select: Sequence[str],
    values: str | None,
    backend: str | None,
    partials: Any,
    **options: Any,
) -> bp.Recording:
    """Record the first gradients that a script computes. If the script raises, its error and these are printed."""
    file, spec = main_program(program)
    _refuse_options(program, file, backend, options)
    probe: Probe[..., Any] = Probe(
        None, select or None, options=Options(values=values or "alias", partials=partials), backend=backend
    )
    script = ScriptRecording(probe, file, words, spec)
    with _ending(lambda: script.recording), progress(lambda: f"{program} runs"):
        script.run()
    if script.recording is None and script.has_exited and asks_for_help(words):
        raise SystemExit
    if script.recording is None:
        raise none_to_show(program, file, is_of_functions=script.differentiates_functions)
    return script.recording


def _refuse_options(program: str, file: str, backend: str | None, options: dict[str, Any]) -> None:
    options = {**options, "backend": backend if backend not in BACKENDS else None}
    for name in (name.replace("_", "-") for name, value in options.items() if value):
        raise BadOption(
            f"--{name} is for functions, and {program} runs as a script",
            asked=asked(program),
            why="a script runs as it is written, and takes its gradients itself",
            next=f"{asked(f'{os.path.relpath(file)}:f', 'x=3')} --{name} ..., for a function f in it; or, if the "
            f"script has an option of this name, {asked(program)} --{name} ...",
        )


@contextmanager
def _ending(known: Callable[[], bp.Report | bp.Recording | None]) -> Iterator[None]:
    # Run a script inside this context. If the script raises, its error and then the results so far are printed; if it
    # exits, the results are printed before the exit.
    try:
        yield
    except SystemExit:
        show(known())
        raise
    except KeyboardInterrupt:
        tell("stopped by Ctrl-C; what is known so far:")
        show(known())
        raise SystemExit(STOPPED) from None
    except Exception as error:
        if is_unread(error):
            raise SystemExit(UNREAD) from None
        show_error(error)
        found = known()
        show(found if isinstance(found, bp.Recording) else with_rebound(found, error))
        raise SystemExit(RAISED) from error
