"""Replaces the plain function inside methods, partials and decorators, by making copies of the methods, partials and
decorators.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from types import CodeType, FunctionType, MethodType
from typing import Any

from backprobe.errors import NoSource

DEEPEST = 8
IN_C = (types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType, types.MethodWrapperType)


def around(function: Any, exchanged: Callable[[FunctionType], FunctionType]) -> Callable[..., Any]:
    """Return ``function`` with its inner plain function replaced. Raises NoSource if there is none, or if it is
    hidden.
    """
    if isinstance(function, MethodType):
        return MethodType(around(function.__func__, exchanged), function.__self__)
    if isinstance(function, functools.partial):
        return functools.partial(around(function.func, exchanged), *function.args, **function.keywords)
    if not isinstance(function, FunctionType):
        raise NoSource(
            f"{_describe(function)} has no Python source to read names from",
            asked=f"the names in {_describe(function)}",
            found="a function written in C"
            if isinstance(function, IN_C)
            else f"an object of {type(function).__name__}",
            why="names come from the source text of a Python function",
            next="its __wrapped__, the function inside it"
            if hasattr(function, "__wrapped__")
            else f"a Python function that calls it: bp.probe(lambda *args: {_own_name(function) or 'f'}(*args))",
        )
    wrapped = getattr(function, "__wrapped__", None)
    if wrapped is None:
        return exchanged(function)
    made = rebuilt(function, wrapped, around(wrapped, exchanged))
    if made is None:
        raise NoSource(
            f"the decorator around {_describe(wrapped)} hides it",
            asked=f"the names in {_describe(wrapped)}",
            found=f"its wrapper {function.__code__.co_qualname} keeps the function in none of its closure cells",
            why="the wrapper can be rebuilt around a rewritten function only if its closure holds that function",
            next="probe the function's __wrapped__, without the decorator",
        )
    return made


def rebuilt(wrapper: FunctionType, wrapped: Any, inner: Any, depth: int = 0) -> FunctionType | None:
    """Return a copy of a wrapper around another function. The wrapper may hold the wrapped function inside further
    wrappers. None if it does not hold it.
    """
    cells = [_exchanged(cell, wrapped, inner, depth) for cell in wrapper.__closure__ or ()]
    if all(new is old for new, old in zip(cells, wrapper.__closure__ or (), strict=True)):
        return None
    return copied(wrapper, wrapper.__code__, tuple(cells))


def _exchanged(cell: Any, wrapped: Any, inner: Any, depth: int) -> Any:
    try:
        held = cell.cell_contents
    except ValueError:  # the cell is empty
        return cell
    if held is wrapped:
        return types.CellType(inner)
    if not isinstance(held, FunctionType) or depth == DEEPEST:
        return cell
    made = rebuilt(held, wrapped, inner, depth + 1)
    return cell if made is None else types.CellType(made)


def copied(function: FunctionType, code: CodeType, closure: tuple[Any, ...]) -> FunctionType:
    """Return a copy of the function with other code."""
    copy = FunctionType(code, function.__globals__, function.__name__, function.__defaults__, closure)
    copy.__kwdefaults__ = function.__kwdefaults__
    copy.__qualname__, copy.__module__ = function.__qualname__, function.__module__
    copy.__dict__.update(function.__dict__)
    return copy


def _describe(function: Any) -> str:
    return _own_name(function) or type(function).__name__


def _own_name(function: Any) -> str:
    # The name of a function, or of an object that stands for one; empty if it has only the name of its class.
    names = (getattr(function, attribute, None) for attribute in ("__name__", "name"))
    return next((one for one in names if isinstance(one, str) and one != type(function).__name__), "")
