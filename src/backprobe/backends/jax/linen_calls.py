"""Calls of Flax linen modules in a program's function: ``model.apply(variables, x)``, and calls of modules inside it.

Linen runs each method on a copy of the module that is bound to the variables. Interceptors can observe these calls.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from types import MethodType
from typing import Any

import jax

from backprobe.source.user_code import innermost, package


def applied(function: Any) -> tuple[Any, Callable[..., Any]] | None:
    """Return the program's own ``__call__`` that ``model.apply`` runs, and a function that runs it; None for any other
    function.
    """
    if not isinstance(function, MethodType) or function.__name__ != "apply":
        return None
    method = _own_method(function.__self__)
    return None if method is None else (method, partial(_around, function))


def called(module: Any) -> tuple[Any, Callable[..., Any]] | None:
    """Return the program's own ``__call__`` of a module that is already bound, as part of a running module, and a
    function that runs it; None for any other value.
    """
    method = _own_method(module) if getattr(module, "scope", None) is not None else None
    return None if method is None else (method, partial(_around, module))


def states(variables: Any = None, /, *args: Any, **kwargs: Any) -> Iterator[tuple[Any, str]]:
    """Yield the arrays that ``model.apply`` receives besides parameters, such as running statistics, each with its
    collection.
    """
    given = kwargs.get("variables") if variables is None else variables
    for collection, held in given.items() if isinstance(given, Mapping) else ():
        if collection != "params":
            yield from ((array, str(collection)) for array in jax.tree.leaves(held))


def _own_method(module: Any) -> Any:
    linen = sys.modules.get("flax.linen")
    if linen is None or not isinstance(module, linen.Module):
        return None
    method = innermost(type(module).__call__) if callable(module) else None
    return method if method is not None and package(method.__code__.co_filename) is None else None


def _around(call: Any, reporting: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    # Run the module through ``call``, with the reporting function instead of its first ``__call__``.
    linen = sys.modules["flax.linen"]
    is_apply, open_calls = isinstance(call, MethodType), [call]

    def intercepted(run: Any, args: Any, kwargs: Any, context: Any) -> Any:
        is_it = context.module.path == () if is_apply else context.module is call
        if open_calls and is_it and context.method_name == "__call__":
            open_calls.clear()
            return reporting(context.module, *args, **kwargs)
        return run(*args, **kwargs)

    with linen.intercept_methods(intercepted):
        return call(*args, **kwargs)
