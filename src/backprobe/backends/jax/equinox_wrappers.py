"""Equinox's wrappers of functions, such as the result of ``filter_vmap``. They are objects with the function in a
field.
"""

from __future__ import annotations

import dataclasses
import inspect
import sys
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from types import FunctionType, MethodType
from typing import Any

import jax

TRACING = ("filter_vmap", "filter_checkpoint")
CALLING = ("filter_grad", "filter_value_and_grad")
"""Functions that return a wrapper which traces the wrapped function, and those whose wrapper differentiates it in
Python.
"""
HOLDING = {
    "filter_jacrev": "fun",
    "filter_jacfwd": "fun",
    "filter_hessian": "fun",
    "filter_closure_convert": "fn",
}
"""Functions that return an object with the wrapped function in this field, and without ``__wrapped__``."""
HIDING = {"filter_pmap": "_fun", "filter_custom_vjp": "fn", "filter_custom_jvp": "fn"}
"""Functions that return an object which does not call the wrapped function directly, because it is compiled or has a
custom derivative.
"""
DERIVING = ("filter_jvp", "filter_vjp")
"""Functions that call the function passed to them, and differentiate it."""


DEEPEST = 4  # levels of nested modules that are searched


def is_wrapper(value: Any) -> bool:
    """Is the value an object that Equinox made around a function?"""
    equinox = sys.modules.get("equinox")
    return equinox is not None and isinstance(value, equinox.Module) and hasattr(value, "__wrapped__")


def as_pythons(value: Any) -> Any:
    """Return a bound method or partial of Equinox as the Python type; None for anything else.

    The types of Equinox are pytrees: for example, a bound method is an object that holds the module.
    """
    equinox = sys.modules.get("equinox")
    if equinox is None or not isinstance(value, equinox.Module):
        return None
    if isinstance(value, equinox.Partial):
        return partial(value.func, *value.args, **value.keywords)
    is_method = type(value).__name__ == "BoundMethod" and type(value).__module__.startswith("equinox.")
    return MethodType(value.__func__, value.__self__) if is_method else None


def is_tracing(value: Any) -> bool:
    """Does the wrapper trace the function inside it?"""
    return is_wrapper(value) and isinstance(value, _made_by(TRACING))


def differentiates(value: Any) -> int:
    """Return how often the object differentiates the function that it wraps or receives."""
    equinox = sys.modules.get("equinox")
    if equinox is None:
        return 0
    if is_deriving(value) or (is_wrapper(value) and isinstance(value, _made_by(CALLING))):
        return 1
    is_jacobian = isinstance(value, _made_by(("filter_jacrev",)))
    return 1 + differentiates(value.fun) if is_jacobian else 0


def is_deriving(value: Any) -> bool:
    """Does the function call the function passed to it, in order to differentiate it?"""
    equinox = sys.modules.get("equinox")
    return equinox is not None and any(value is getattr(equinox, name, None) for name in DERIVING)


def wrapped(value: Any) -> Any:
    """Return the function inside a wrapper, or inside nested wrappers; None if it cannot be exchanged."""
    inside = _held(value)
    if inside is None:
        return None
    return inside if (innermost := wrapped(inside)) is None else innermost


def _held(value: Any) -> Any:
    if "equinox" not in sys.modules:
        return None
    if is_wrapper(value):
        return getattr(value, "__wrapped__", None) if isinstance(value, _made_by((*TRACING, *CALLING))) else None
    equinox = sys.modules["equinox"]
    if isinstance(value, equinox.nn.Lambda):
        return value.fn
    for maker, field in HOLDING.items():
        if isinstance(value, _made_by((maker,))):
            return getattr(value, field)
    return None


def hidden(value: Any) -> Any:
    """Return the function in an Equinox object that does not call the function directly; None for any other value."""
    if "equinox" not in sys.modules:
        return None
    field = next((field for maker, field in HIDING.items() if isinstance(value, _made_by((maker,)))), None)
    inside = None if field is None else getattr(value, field)
    inside = getattr(inside, "__wrapped__", inside)  # JAX wraps functions with a custom derivative
    if not isinstance(inside, FunctionType) or not str(inside.__module__).startswith("equinox."):
        return inside
    return inspect.getclosurevars(inside).nonlocals.get(
        "fn", inside
    )  # the wrapper that Equinox puts around ``fn`` takes only arrays


def may_hold(value: Any) -> bool:
    """Is the value a module, or JAX's wrapper of a module? Two modules of the same type may hold different
    functions.
    """
    equinox = sys.modules.get("equinox")
    return equinox is not None and isinstance(getattr(value, "__wrapped__", value), equinox.Module)


def held(value: Any, deeper: int = DEEPEST) -> Iterator[Any]:
    """Yield the functions in the fields of a module, or of a module that JAX has wrapped, and in modules nested in it.
    For a nested module it yields the ``__call__`` of the class.
    """
    if not may_hold(value):
        return
    equinox, value = sys.modules["equinox"], getattr(value, "__wrapped__", value)
    for field in dataclasses.fields(value):
        inside = getattr(value, field.name, None)
        for one in inside if isinstance(inside, tuple | list) else [inside]:
            if callable(one) and not isinstance(one, type):
                yield type(one).__call__ if isinstance(one, equinox.Module) else one
            if deeper:
                yield from held(one, deeper - 1)


def is_converted(value: Any) -> bool:
    """Is the value a result of ``filter_closure_convert``?"""
    return type(value).__name__ == "_ClosureConvert" and type(value).__module__.startswith("equinox.")


def layers(value: Any) -> Callable[..., Any] | None:
    """Return a function that calls this ``eqx.nn.Sequential`` with the layers passed first; None for any other
    value.
    """
    equinox = sys.modules.get("equinox")
    if equinox is None or type(value) is not equinox.nn.Sequential:
        return None
    return partial(_call_with_layers, value, value.layers)


def _call_with_layers(sequential: Any, layers: tuple[Any, ...], /, *args: Any, **kwargs: Any) -> Any:
    stateful = sys.modules["equinox"].nn.StatefulLayer  # layers of this class are not replaced
    pairs = zip(sequential.layers, layers, strict=True)
    kept = tuple(old if isinstance(old, stateful) and old.is_stateful() else new for old, new in pairs)
    made = object.__new__(type(sequential))
    made.__dict__.update(vars(sequential), layers=kept)
    return made(*args, **kwargs)


def call_around(wrapper: Any, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Call a wrapper with this function instead of its own."""
    return _rebuilt(wrapper, wrapped(wrapper), function)(*args, **kwargs)


def trace_around(
    stage: Callable[..., Any], wrapper: Any, function: Callable[..., Any], /, *args: Any, **kwargs: Any
) -> Any:
    """Call a wrapper with this function through ``stage``, which takes and returns only arrays. Objects of other types
    that Equinox returns are added again afterwards.
    """
    parts: list[Any] = []

    def arrays(*args: Any, **kwargs: Any) -> list[Any]:
        leaves, structure = jax.tree.flatten(call_around(wrapper, function, *args, **kwargs))
        parts[:] = [partial(jax.tree.unflatten, structure), *(None if _is_array(leaf) else (leaf,) for leaf in leaves)]
        return [leaf for leaf in leaves if _is_array(leaf)]

    made: Iterator[Any] = iter(stage(arrays, *args, **kwargs))
    filled, *others = parts
    return filled([next(made) if other is None else other[0] for other in others])


def _is_array(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array)


@lru_cache
def _made_by(makers: tuple[str, ...]) -> tuple[type, ...]:
    equinox = sys.modules["equinox"]
    given = {"filter_closure_convert": (is_wrapper, 0)}
    found = (maker for maker in makers if hasattr(equinox, maker))
    return tuple(type(getattr(equinox, maker)(*given.get(maker, (is_wrapper,)))) for maker in found)


def _rebuilt(wrapper: Any, old: Any, new: Any) -> Any:
    # Return a copy of a wrapper, or of nested wrappers, around another function.
    made = object.__new__(type(wrapper))
    made.__dict__.update(vars(wrapper))
    for field in dataclasses.fields(wrapper):
        held = getattr(wrapper, field.name)
        if held is old:
            made.__dict__[field.name] = new
        elif is_wrapper(held) or _held(held) is not None:
            made.__dict__[field.name] = _rebuilt(held, old, new)
    return made
