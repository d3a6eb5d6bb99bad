"""A whole script on the command line: it runs as ``python FILE`` would, and is explained."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import backprobe as bp
from backprobe.cli.program import asked, similar_file
from backprobe.cli.program_error import RAISED, show
from backprobe.cli.progress import progress
from backprobe.cli.refusal import STOPPED
from backprobe.cli.stopping import UNREAD, is_unread
from backprobe.cli.unseen import no_gradient_seen
from backprobe.errors import BadOption
from backprobe.explain.rebound import with_rebound
from backprobe.probe.script import USUAL, Script
from backprobe.probe.script_recording import ScriptRecording
from backprobe.probe.training_loop import LISTENING
from backprobe.show.printing import echo


def judged(
    file: str, words: Sequence[str], judge: Callable[[bp.Recording], bp.Report] = bp.explain, *, nonfinite: bool,
    backend: str | None, steps: int | None = None, **options: Any,
) -> bp.Report:  # fmt: skip
    """The report on a script. Where it raises, or exits with a status, the report is printed before that comes out."""
    _check(file, {**options, "backend": backend if backend not in LISTENING else None})
    if steps is None:
        steps = USUAL if judge is bp.explain else 1
    elif nonfinite:
        raise BadOption(
            "--nonfinite looks at all iterations, up to the first with NaN or Inf", asked=asked(file, "--nonfinite"),
            next=f"--nonfinite without --steps {steps}",
        )  # fmt: skip
    script = Script(bp.probe(nonfinite=nonfinite, backend=backend), file, words, judge, steps)
    try:
        with progress(lambda: f"{file} runs, {script.iterations} iterations"):
            script.run()
    except SystemExit:
        _print(script.report())
        raise
    except KeyboardInterrupt:
        echo("stopped by Ctrl-C; what is known so far:", err=True)
        _print(script.report())
        raise SystemExit(STOPPED) from None
    except Exception as error:
        if is_unread(error):
            raise SystemExit(UNREAD) from None
        show(error)
        _print(with_rebound(script.report(), error))
        raise SystemExit(RAISED) from error
    report = script.report()
    if report is None:
        raise no_gradient_seen(file)
    return report


def recorded(
    file: str, words: Sequence[str], *, select: Sequence[str], values: str | None, backend: str | None,
    partials: Any, **options: Any,
) -> bp.Recording:  # fmt: skip
    """What a script takes gradients of first. Where it raises, that is printed before its error comes out."""
    _check(file, {**options, "backend": backend if backend not in LISTENING else None})
    probe = bp.probe(select=select or None, values=values or "alias", partials=partials, backend=backend)
    script = ScriptRecording(probe, file, words)
    try:
        with progress(lambda: f"{file} runs"):
            script.run()
    except SystemExit:
        _print(script.recording)
        raise
    except KeyboardInterrupt:
        echo("stopped by Ctrl-C; what is known so far:", err=True)
        _print(script.recording)
        raise SystemExit(STOPPED) from None
    except Exception as error:
        if is_unread(error):
            raise SystemExit(UNREAD) from None
        show(error)
        _print(script.recording)
        raise SystemExit(RAISED) from error
    if script.recording is None:
        raise BadOption(
            f"{file} takes no gradient of PyTorch or TensorFlow that was seen", asked=asked(file),
            why="without a function, the file runs as a script, and what is shown are the gradients that it takes\n"
            "itself; what jax.grad takes is explained by backprobe explain, and recorded of a function",
            next=f"loss.backward() at the end of {file}; or {asked(f'{file}:f', 'x=3')}, for a function f in it",
        )  # fmt: skip
    return script.recording


def _check(file: str, options: dict[str, Any]) -> None:
    if not Path(file).is_file():
        raise BadOption(
            f"there is no script {file!r}", asked=asked(file),
            next=f"{asked(similar_file(file) or 'train.py')}, or {asked('toy.py:f', 'x=3')} for a function in a file",
        )  # fmt: skip
    for name in (name.replace("_", "-") for name, value in options.items() if value):
        raise BadOption(
            f"--{name} is for functions, and {file} runs as a script", asked=asked(file),
            why="a script runs as it is written, and takes its gradients itself",
            next=f"{asked(file)}:f x=3 --{name} ..., for a function f in it; or, if the script has "
            f"an option of this name, {asked(file)} -- --{name} ...",
        )  # fmt: skip


def _print(found: bp.Report | bp.Recording | None) -> None:
    if found is not None:
        echo(str(found))
