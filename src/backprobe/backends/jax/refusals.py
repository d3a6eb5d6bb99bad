"""Raises errors for targets that a recording in JAX would get wrong, with advice."""

from __future__ import annotations

from typing import Any

import jax

from backprobe.backends.jax import calls, equinox_wrappers
from backprobe.errors import NoSource, Unsupported

STAGES = (jax.stages.Compiled, jax.stages.Lowered, jax.stages.Traced)


def refuse(target: Any, asked: str) -> None:
    """Raise NoSource for a function of JAX itself, and Unsupported for a function that was traced or compiled ahead of
    time or that Equinox has wrapped, other than with its ``jit``. As arguments of the target such functions are
    allowed, for example as the activation of a model.
    """
    name, module = getattr(target, "__name__", None), str(getattr(target, "__module__", ""))
    if name is not None and module.startswith("jax."):
        raise NoSource(
            f"{name} is a function of JAX itself",
            asked=asked,
            found=f"a function of {module}",
            why="names come from the source text of your functions",
            next="bp.probe(lambda x: jnp.exp(x))",
        )
    if isinstance(target, STAGES):
        raise Unsupported(
            "a compiled function cannot be probed",
            asked=asked,
            found=type(target).__name__,
            why="its code was fixed when it was compiled; names put in now would be missed silently",
            next="probe the function itself, or jax.jit(function)",
        )
    if equinox_wrappers.is_wrapper(target) and calls.jitted(target) is None:
        raise Unsupported(
            "what Equinox has wrapped a function in cannot be probed itself",
            asked=asked,
            found=f"an object of type {type(target).__name__}",
            why="it has no bindings of its own",
            next="a function that calls it: bp.probe(lambda *args: wrapped(*args))",
        )


def refuse_argument(value: Any, asked: str) -> None:
    """Raise Unsupported for an argument that is a shape rather than an array."""
    if isinstance(value, jax.ShapeDtypeStruct):
        raise Unsupported(
            "an argument is a shape without numbers",
            asked=asked,
            found=str(value),
            why="a gradient is taken at a point",
            next=f"jax.numpy.ones({tuple(value.shape)}, {str(value.dtype)!r}), or another array of that shape",
        )
