"""Notes on JAX's errors, where backprobe knows more than they say."""

from __future__ import annotations

import jax

from backprobe.backends.facts import Advice
from backprobe.backends.user_lines import users_line_of

VALUE_WANTED = (jax.errors.ConcretizationTypeError, jax.errors.TracerArrayConversionError)

VALUE_IS_TRACED = "the program asks for the number in a value that JAX only traces, as under jax.grad"
INSTEAD_OF_VALUE = (
    "compute with the array itself (jnp.where instead of an if, jnp.sin instead of np.sin), and gradients flow;\n"
    "u.item() gives the number, without a gradient, except inside jit, scan, cond, vmap and checkpoint"
)

LOOP_IS_OPEN = "the number of turns of this loop is not known beforehand, so JAX cannot go back through it"
INSTEAD_OF_OPEN = "use lax.scan, or lax.fori_loop with bounds that are Python numbers"


def explain(error: BaseException, *context: object) -> Advice | None:
    """What to add to an error; None where there is nothing."""
    if isinstance(error, VALUE_WANTED):
        return Advice(VALUE_IS_TRACED, users_line_of(error.__traceback__), INSTEAD_OF_VALUE)
    if isinstance(error, ValueError) and "Reverse-mode differentiation" in str(error):
        traced = error.__cause__ or error  # JAX puts there where the operation was traced
        return Advice(LOOP_IS_OPEN, users_line_of(traced.__traceback__), INSTEAD_OF_OPEN)
    return None
