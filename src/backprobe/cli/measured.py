"""The command ``memory``: measures the memory of a script."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import NoReturn

import click

from backprobe.cli.module import main_program
from backprobe.cli.output import show, tell
from backprobe.cli.program_error import RAISED, REFUSED
from backprobe.cli.program_error import show as show_error
from backprobe.cli.refusal import INTERRUPTED, STOPPED
from backprobe.cli.stopping import UNREAD, is_unread
from backprobe.cli.unseen import asks_for_help
from backprobe.errors import BackprobeError
from backprobe.memory.script import BLOCK, ScriptMemory

NO_STEP = f"no optimizer made a step that can be heard, so nothing is known of what outlives one\n  next: {BLOCK}"


def measured(program: str, words: Sequence[str], steps: int, experiments: bool) -> NoReturn:
    """Run the first steps of a script, and print what it keeps in memory.

    The exit status is the script's own if that is not 0, and 3 if the script raises. Otherwise it is 1 if something
    outlives its step, and 2 if no step was seen. A script that itself calls ``sys.exit(0)`` before any step gives 0.

    With ``experiments``, the script may run again with changed lines that should free such memory. It does not if it
    raised or called ``sys.exit()`` with a status.
    """
    file, spec = main_program(program)
    script = ScriptMemory(steps)
    status: int | None = None
    try:
        script.run([file, *words], spec)
    except SystemExit as error:
        status = error.code if isinstance(error.code, int) else None if error.code is None else 1
    except KeyboardInterrupt:
        click.get_current_context().meta[INTERRUPTED] = True
        tell("stopped by Ctrl-C; what is known so far:")
        status = STOPPED
    except BackprobeError:
        raise
    except Exception as error:  # noqa: BLE001  it is the script's own, and is printed
        status = UNREAD if is_unread(error) else RAISED
        if status == RAISED:
            show_error(error)
    if status is None and experiments:
        script.try_remedies()
    if not status and not script.report.steps and asks_for_help(words):
        sys.exit()
    if status is None and not script.report.steps:
        tell(NO_STEP)
        sys.exit(REFUSED)
    if script.is_stopped:
        tell(f"stopped after {script.report.steps:,} steps")
    show(script.report, script.report.to_dict())
    sys.exit(status or int(not script.report.ok))
