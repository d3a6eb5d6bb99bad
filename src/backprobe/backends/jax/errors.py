"""JAX's errors about tracing, recognised by class. JAX's own messages explain them and say what to write."""

from __future__ import annotations

import jax

from backprobe.backends.jax.private import TRACED_AT
from backprobe.backends.user_lines import users_line_of
from backprobe.record.source import Source


def traced_line(error: BaseException) -> Source | None:
    """Return the program's line that cannot be traced, or not be transformed after tracing; None for any other
    error.
    """
    traced = error.__cause__ if isinstance(error.__cause__, TRACED_AT) else error
    is_of_tracing = traced is not error or isinstance(error, jax.errors.JAXTypeError | jax.errors.JAXIndexError)
    return users_line_of(traced.__traceback__) if is_of_tracing else None
