"""Warnings of a watch. They never stop the training."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

from backprobe.backends.user_lines import callers
from backprobe.source.user_code import package


def stopped(folder: Path, failure: BaseException, acknowledged: int) -> str:
    """The message when a run can no longer be written."""
    kept = f"Steps up to {acknowledged} are on disk" if acknowledged >= 0 else "No step of it is on disk"
    return f"bp.watch has stopped: {folder} can no longer be written ({failure}). {kept}. The training goes on."


def say(message: str) -> None:
    """Warn at the current line of the program. If warnings are errors (``-W error``), print to standard error."""
    above = enumerate(callers(sys._getframe(1)), 2)
    level = next((at for at, frame in above if package(frame.f_code.co_filename) is None), 2)
    try:
        warnings.warn(message, RuntimeWarning, stacklevel=level)
    except RuntimeWarning:
        if sys.stderr is not None:
            sys.stderr.write(f"RuntimeWarning: {message}\n")
