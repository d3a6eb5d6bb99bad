"""Notes on JAX's errors, where backprobe knows more than they say."""

from __future__ import annotations

import jax

from backprobe.backends.user_lines import users_line_of
from backprobe.errors import labelled
from backprobe.record.brief import path

VALUE_WANTED = (jax.errors.ConcretizationTypeError, jax.errors.TracerArrayConversionError)

VALUE_IS_TRACED = "the program asks for the number in a value that JAX only traces, as under jax.grad"
INSTEAD_OF_VALUE = (
    "compute with the array itself (jnp.where instead of an if), and gradients flow;\n"
    "u.item() gives the number, without a gradient, except inside jit, scan, cond, vmap and checkpoint"
)


def explain(error: BaseException, *context: object) -> str | None:
    """A note for an error; None where there is nothing to add."""
    if isinstance(error, VALUE_WANTED):
        line = users_line_of(error.__traceback__)
        at = "" if line is None else f"{path(line.file, line.line)}: {line.text}"
        return "\n".join(["backprobe: " + VALUE_IS_TRACED, *labelled([("at", at), ("next", INSTEAD_OF_VALUE)])])
    if isinstance(error, ValueError) and "Reverse-mode differentiation" in str(error):
        return "backprobe: a loop can be differentiated if its number of iterations is fixed beforehand: lax.scan"
    return None
