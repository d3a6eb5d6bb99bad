"""Notes on JAX's errors, where backprobe knows more than they say."""

from __future__ import annotations

import jax

from backprobe.backends.facts import Advice
from backprobe.backends.jax import traced_values
from backprobe.backends.jax.refused_calls import refused
from backprobe.backends.user_lines import users_line_of

LOOP_IS_OPEN = "the number of turns of this loop is not known beforehand, so JAX cannot go back through it"
INSTEAD_OF_OPEN = "use lax.scan, or lax.fori_loop with bounds that are Python numbers"


def explain(error: BaseException, *context: object) -> Advice | None:
    """What to add to an error; None where there is nothing."""
    if isinstance(error, traced_values.VALUE_WANTED):
        return traced_values.value_wanted(error)
    if isinstance(error, jax.errors.UnexpectedTracerError):
        return traced_values.leaked(error)
    if isinstance(error, ValueError) and "Reverse-mode differentiation" in str(error):
        traced = error.__cause__ or error  # JAX puts there where the operation was traced
        return Advice(LOOP_IS_OPEN, users_line_of(traced.__traceback__), INSTEAD_OF_OPEN)
    return refused(error)
