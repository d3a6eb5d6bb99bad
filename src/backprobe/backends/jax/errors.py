"""Notes on JAX's errors, where backprobe knows more than they say."""

from __future__ import annotations

import jax

VALUE_WANTED = (jax.errors.ConcretizationTypeError, jax.errors.TracerArrayConversionError)


def explain(error: BaseException, *context: object) -> str | None:
    """A note for an error; None where there is nothing to add."""
    if isinstance(error, VALUE_WANTED):
        return (
            "backprobe: the program asks for the number in a value that JAX only traces, as under jax.grad; "
            "u.item() gives it, except inside jit, scan, cond, vmap and checkpoint"
        )
    if isinstance(error, ValueError) and "Reverse-mode differentiation" in str(error):
        return "backprobe: a loop can be differentiated if its number of iterations is fixed beforehand: lax.scan"
    return None
