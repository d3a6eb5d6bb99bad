"""Reads the numbers of JAX arrays for a guard, also of tracers inside a transformation.

A function that is being differentiated computes with real numbers, which its tracers hold. Tracers of ``jax.vmap`` hold
the numbers of all elements, and those of ``jax.pmap`` the numbers of all devices. Tracers of ``jax.jit`` hold no
numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy

from backprobe.backends.guarding import counted
from backprobe.backends.guards import Found
from backprobe.backends.jax import private
from backprobe.backends.jax.arrays import JaxArrays
from backprobe.backends.jax.checked_models import concrete

ARRAYS = JaxArrays()


def mapped(leaf: Any) -> tuple[Any, int | None]:
    """Return the numbers of an array, and the axis over which ``jax.vmap`` or ``jax.pmap`` maps it, or None. With an
    axis, these are the numbers of all elements.
    """
    held = concrete(leaf)
    on_devices = private.of_devices(held)
    if on_devices is not None:
        numbers = concrete(on_devices)
        is_key = jnp.issubdtype(numbers.dtype, jax.dtypes.prng_key)
        return (numbers if is_key else numpy.asarray(numbers)), 0  # JAX would keep them on several devices
    if isinstance(held, jax.core.Tracer) and hasattr(held, "batch_dim") and hasattr(held, "val"):
        return concrete(held.val), held.batch_dim if isinstance(held.batch_dim, int) else None
    return held, None


def has_numbers(leaf: Any) -> bool:
    return not isinstance(mapped(leaf)[0], jax.core.Tracer)


def unfit(named: Mapping[str, Any]) -> Found:
    """Return the counts of NaN and Inf in the arrays that contain them, by name."""
    return counted({name: mapped(leaf)[0] for name, leaf in named.items()}, ARRAYS.nonfinite)


def element_of(leaf: Any) -> int | None:
    """Return the index of the first element of a mapped array that is not finite, or 0 if all are finite; None if the
    array is not mapped.
    """
    numbers, axis = mapped(leaf)
    if axis is None:
        return None
    rest = tuple(at for at in range(numbers.ndim) if at != axis)
    return int(jnp.argmin(jnp.isfinite(numbers).all(rest)))


def at_element(leaf: Any, element: int | None) -> Any:
    """Return the value of a leaf for a single element of the mapped axis. Leaves that are not mapped are returned
    whole, and so are all leaves if ``element`` is None.
    """
    if not isinstance(leaf, jax.Array):
        return leaf
    numbers, axis = mapped(leaf)
    return numbers if axis is None or element is None else jnp.asarray(numbers.take(element, axis, mode="clip"))
