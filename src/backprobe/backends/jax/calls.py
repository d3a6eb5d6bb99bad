"""Which callables of JAX run functions that are given to them, and how."""

from __future__ import annotations

import functools
import inspect
from types import MethodType
from typing import Any

import jax

from backprobe.backends.jax import private

TRACING = ("scan", "cond", "switch", "while_loop", "fori_loop", "map", "associative_scan")


@functools.lru_cache(1)
def _tracing() -> dict[int, Any]:
    return {id(function): function for function in (getattr(jax.lax, name) for name in TRACING)}


@functools.lru_cache(1)
def _calling() -> dict[int, Any]:
    found = (jax.tree.map, jax.tree_util.tree_map, jax.tree_util.tree_map_with_path, jax.tree.reduce)
    return {id(function): function for function in found}


def traces_its_arguments(function: Any) -> bool:
    """Is it a control flow operator of ``jax.lax``?"""
    return id(function) in _tracing()


def calls_its_arguments(function: Any) -> bool:
    """Does it call functions as Python does?"""
    return id(function) in _calling()


def jitted(function: Any) -> Any:
    """The Python function inside what ``jax.jit`` made, methods and partials of it included; None for anything else."""
    if isinstance(function, private.Jit):
        return inspect.unwrap(function)
    if isinstance(function, MethodType):
        inside = jitted(function.__func__)
        return None if inside is None else MethodType(inside, function.__self__)
    if isinstance(function, functools.partial):
        inside = jitted(function.func)
        return None if inside is None else functools.partial(inside, *function.args, **function.keywords)
    return None
