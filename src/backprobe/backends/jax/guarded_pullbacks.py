"""Derivatives of functions whose output need not be a single number: the results of ``jax.vjp`` and ``jax.jacrev``.

They are computed again with the cotangent that the program passed. For a Jacobian the cotangent is all ones, so the sum
of the output's elements is differentiated.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any

import jax
import jax.numpy as jnp

from backprobe.backends.jax.tensors import is_floating
from backprobe.backends.user_lines import callers
from backprobe.source.user_code import package

Of = str | Callable[[Any], Any] | None


def asked_by_program(frame: FrameType | None) -> bool:
    """Is the function called directly by the program, and not by a library?"""
    packages = (package(one.f_code.co_filename) for one in callers(frame))
    return next((one for one in packages if one != "backprobe"), "") is None


def output_and_cotangent(value: Any, cotangent: Any, *, has_aux: bool) -> tuple[Of, Any]:
    """Return the output to differentiate and its cotangent. ``value`` is the function's result without auxiliary data.

    If the result has several arrays, the output is one number: the sum of each array times its cotangent.
    """
    path = "0" if has_aux else None
    if is_floating(value):
        return path, jnp.ones_like(value) if cotangent is None else cotangent
    return partial(_weighted, cotangent, has_aux), None


def _weighted(cotangent: Any, has_aux: bool, returned: Any) -> Any:
    out = returned[0] if has_aux else returned
    leaves = jax.tree.leaves(out)
    seeds = [None] * len(leaves) if cotangent is None else jax.tree.leaves(cotangent)
    terms = [
        jnp.sum(one if seed is None else one * seed)
        for one, seed in zip(leaves, seeds, strict=True)
        if is_floating(one)
    ]
    return jnp.sum(jnp.stack(terms))
