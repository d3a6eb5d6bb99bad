"""Warnings of a watch, which never stop the training."""

from __future__ import annotations

import sys
import warnings


def say(message: str) -> None:
    """Warn; where warnings are errors (``-W error``), write it to standard error instead."""
    try:
        warnings.warn(message, RuntimeWarning, stacklevel=4)
    except RuntimeWarning:
        if sys.stderr is not None:
            sys.stderr.write(f"RuntimeWarning: {message}\n")
