"""Reports operations that make NaN from operands without NaN, or Inf from finite operands, as JAX evaluates them one
by one.

Compilation is switched off, but loops, branches and functions of ``jax.numpy`` may still count as single operations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import jax
import jax.numpy as jnp
import numpy

from backprobe.backends.heard_arrays import birth
from backprobe.backends.heard_births import HeardBirth
from backprobe.backends.jax.private import hearing_evaluations


@contextmanager
def hearing_births(heard: Callable[[HeardBirth], None]) -> Iterator[None]:
    """Inside this context, ``heard`` is called for each operation with one result that makes NaN without NaN in an
    operand, or Inf from finite operands.
    """

    def told(primitive: Any, given: Sequence[Any], params: Mapping[str, Any], made: Any) -> None:
        operands = [_numbers(one) for one in given]
        result = _numbers(made)
        if result is not None and all(one is not None for one in operands):
            named = [(f"operand {nth}", one) for nth, one in enumerate(operands, 1)]
            one = birth(str(primitive), named, result)
            if one is not None:
                heard(one)

    with jax.disable_jit(), hearing_evaluations(told):
        yield


def _numbers(value: Any) -> Any:
    # Return the numbers of a value; None if it has none, as a random key or a tracer.
    if isinstance(value, jax.core.Tracer) or not isinstance(
        value, jax.Array | numpy.ndarray | numpy.generic | float | int
    ):
        return None
    dtype = jnp.result_type(value)
    if jnp.issubdtype(dtype, jax.dtypes.extended):
        return None
    return numpy.asarray(value, numpy.float32 if dtype == jnp.bfloat16 else None)
