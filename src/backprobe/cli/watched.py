"""The command ``watch``: watches a script while it trains. The script ends with its usual exit status."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from types import CodeType
from typing import Any, NoReturn

import backprobe as bp
from backprobe.cli.module import is_first, main_program
from backprobe.cli.output import show, tell
from backprobe.cli.program import asked
from backprobe.cli.program_error import show as show_error
from backprobe.cli.refusal import STOPPED
from backprobe.cli.stopping import UNREAD, is_unread
from backprobe.cli.unseen import asks_for_help
from backprobe.cli.viewed import begin, wait
from backprobe.errors import BadOption
from backprobe.findings.phrasing import conjoined, plural
from backprobe.findings.report import Finding
from backprobe.guard.capture import check_path
from backprobe.record.brief import place
from backprobe.rules.gap import Gap
from backprobe.show.printing import echo
from backprobe.watch.options import DEFAULT
from backprobe.watch.script import ScriptWatch

MOST = 3
"""The largest number of alerts and gaps of each run that are printed at the end."""


def watched(
    program: str,
    words: Sequence[str],
    folder: str | None,
    append: bool,
    *,
    select: Sequence[str] = (),
    what: Sequence[str] = (),
    histogram: int = 0,
    capture: str | None = None,
    view: bool = False,
    **options: Any,
) -> NoReturn:
    """Run a script, watch it, and exit with its status, which is 1 if the script raises. Raises BadOption."""
    file, spec = main_program(program)
    name = Path(file).stem if spec is None else program.rpartition(".")[2]
    into = Path(folder or f"{name}.run")
    _refuse_used(program, words, into, append)
    options |= {"select": list(select) or None, "pace": bp.Pace(histogram=histogram), "what": what or DEFAULT}
    if capture is not None:
        check_path(capture, asked(program, *words, options=("--capture", capture)), "--capture bad-step")
        options["guard"] = capture
    # the script may change the current folder
    script = ScriptWatch(into.absolute(), partial(bp.watch, **options))
    viewer = begin(into) if view and is_first() else None
    status: Any = None
    try:
        script.run([file, *words], spec)
        sys.stdout.flush()
    except SystemExit as error:
        status = error.code
    except KeyboardInterrupt:
        status = STOPPED
    except Exception as error:
        if not script.runs and isinstance(error, bp.NoBackend):
            raise
        status = UNREAD if is_unread(error) else 1
        if status == 1:
            show_error(error)
    if is_first():
        _say(script, into, program, words)
    if viewer is not None:
        if sys.stdout.isatty() and status != STOPPED:
            wait(viewer)
        viewer.close()
    sys.exit(status)


def the_run(folder: str) -> str:
    """The only run inside ``folder``; ``folder`` itself if it is a run, or contains none or several."""
    from backprobe.storage.runs.layout import FILE  # imported late, because it imports NumPy

    inside = {one.parent for one in Path(folder).glob(f"*/{FILE.format('*')}")}
    return str(inside.pop()) if len(inside) == 1 and not [*Path(folder).glob(FILE.format("*"))] else folder


def _refuse_used(program: str, words: Sequence[str], folder: Path, append: bool) -> None:
    if folder.exists() and not append and is_first():
        raise BadOption(
            f"{folder} is there already",
            asked=asked(program, *words),
            why="another training would go on behind its last step",
            next=f"{asked(program, *words, options=('--folder', f'{folder.stem}-2.run'))}, or "
            + asked(program, *words, options=["--append"]),
        )


def _say(script: ScriptWatch, into: Path, program: str, words: Sequence[str]) -> None:
    # Print a summary of the watched models to standard error. Their folders are named from where the command was typed.
    runs = []
    for run in script.runs:
        with bp.open_run(run.folder) as opened:
            steps, alerts = len(opened.steps), [*opened.alerts]
            # only gaps of the whole model or of trained parts: gaps of a frozen part are intended
            gaps = [one for one in opened.gaps if isinstance(one, Gap) and (one.lost or not one.name)]
        folder = into / run.folder.name
        runs.append({"folder": str(folder), "steps": steps, "alerts": [one.headline for one in alerts]})
        tell(f"watched {run.folder.name} for {plural(steps, 'step')}: backprobe report {folder}")
        _tell_first([*alerts, *(one for one in gaps if len(one.steps) == steps)])
    refused = [str(error) for error in script.refused]
    for said in refused:
        echo(f"not watched: {said}", err=True)
    if not runs and not refused and not asks_for_help(words):
        _tell_unwatched(script.compiled_functions, asked(program, *words))
    show(None, {"runs": runs, "refused": refused})


def _tell_unwatched(compiled: Sequence[CodeType], retyped: str) -> None:
    found = "nothing was watched: no optimizer of PyTorch has parameters of a model that was called"
    if not compiled:
        tell(found)
        return
    tell(f"{found} outside of compiled code")
    places = [f"{code.co_qualname} ({place(code.co_filename, code.co_firstlineno)})" for code in compiled]
    tell(f"  torch.compile compiled {conjoined(places)}; models that only this calls are not seen")
    tell(f"    next:  TORCH_COMPILE_DISABLE=1 {retyped}")


def _tell_first(findings: Sequence[Finding]) -> None:
    for one in findings[:MOST]:
        tell(f"  {one.headline}")
        if one.remedy:
            tell(f"    next:  {' '.join(one.remedy.split())}")
    if len(findings) > MOST:
        tell(f"  and {len(findings) - MOST:,} more")
