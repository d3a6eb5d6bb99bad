"""Finds the coarsest precision inside a call, and whether the call contains, or may contain, a custom derivative."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from backprobe.backends.jax import private


def coarsest_cast(jaxpr: Any) -> float:
    """Return the largest epsilon of the dtypes to which numbers are cast down; 0 if there are no such casts.

    >>> import jax
    >>> coarsest_cast(jax.make_jaxpr(lambda x: jnp.tanh(x.astype(jnp.float16)))(1.0))
    0.0009765625
    """
    casts = filter(_casts, private.equations(jaxpr))
    return max((_epsilon(equation.outvars[0].aval) for equation in casts), default=0.0)


def has_custom(jaxpr: Any) -> bool:
    """Does any operation inside have a custom derivative?"""
    names = (equation.primitive.name for equation in private.equations(jaxpr))
    return any(name.startswith(("custom_vjp", "custom_jvp")) for name in names)


def has_rules(jaxpr: Any) -> bool:
    """Does an operation inside hold functions that forward does not run, such as the transpose in ``linear_call``?

    >>> import jax
    >>> solve = lambda matvec, b: b / 2
    >>> has_rules(jax.make_jaxpr(lambda b: jax.lax.custom_linear_solve(lambda x: 2 * x, b, solve, solve))(1.0))
    True
    """
    return any(map(_is_rule, (one for equation in private.equations(jaxpr) for one in equation.params.values())))


def _is_rule(parameter: Any) -> bool:
    if hasattr(parameter, "_fields"):  # a named tuple, rather than a sequence of branches
        return any(hasattr(one, "jaxpr") for one in parameter)
    return callable(parameter) and not isinstance(parameter, type)


def _casts(equation: Any) -> bool:
    if equation.primitive.name not in ("convert_element_type", "reduce_precision"):
        return False
    given, made = equation.invars[0].aval, equation.outvars[0].aval
    return bool(0.0 < _epsilon(given) < _epsilon(made))


def _epsilon(shaped: Any) -> float:
    return float(jnp.finfo(shaped.dtype).eps) if jnp.issubdtype(shaped.dtype, jnp.inexact) else 0.0
