"""Decides which calls can be repeated without side effects: those that only compute, and cannot change their
arguments.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from types import (
    BuiltinFunctionType,
    CellType,
    EllipsisType,
    FunctionType,
    MethodType,
    ModuleType,
    NoneType,
    NotImplementedType,
)
from typing import Any

from backprobe.record.containers import leaves
from backprobe.record.reasons import Reason
from backprobe.source.user_code import innermost, package

COMPUTING = frozenset({"abs", "complex", "divmod", "float", "max", "min", "pow", "round", "sum"})
"""Python's builtin functions that only compute from their arguments."""
MATHEMATICAL = ("_operator", "cmath", "math")


def attribute_of(tensor: Any, name: str) -> Any:
    """Return an attribute of a tensor, such as ``tensor.T``."""
    return getattr(tensor, name)


def with_element(tensor: Any, index: Any, value: Any) -> Any:
    """Return the tensor after ``tensor[index] = value``."""
    tensor[index] = value
    return tensor


def items_of(tensor: Any) -> tuple[Any, ...]:
    """Return the items of a tensor, by iteration."""
    return tuple(tensor)


WITHOUT_CALL = (attribute_of, with_element, items_of)
"""The functions that represent computations on a tensor that are not written as a call or an operator."""
FIXED: tuple[type, ...] = (
    int,
    float,
    complex,
    bool,
    str,
    bytes,
    type,
    slice,
    range,
    frozenset,
    enum.Enum,
    BuiltinFunctionType,
    FunctionType,
    MethodType,
    NoneType,
    EllipsisType,
    NotImplementedType,
)
"""Types whose values a call cannot change, or whose values are not state of the program, such as functions."""


def is_python_computing(function: Any) -> bool:
    """Is the function a builtin of Python that only computes, or one of ``WITHOUT_CALL``?

    A builtin method does not count, because it may change its object.

    >>> is_python_computing(sum), is_python_computing(next), is_python_computing([1].pop)
    (True, False, False)
    """
    if any(function is one for one in WITHOUT_CALL):  # by identity: an object may refuse to be compared
        return True
    if not isinstance(function, BuiltinFunctionType) or not isinstance(function.__self__, ModuleType):
        return False
    home = function.__module__
    return home in MATHEMATICAL or (home == "builtins" and function.__name__ in COMPUTING)


def why_not_kind(function: Any) -> Reason:
    """Return why a call of a callable that is not a Python function is not repeated."""
    if isinstance(function, BuiltinFunctionType):
        owner = function.__self__
        if owner is None or isinstance(owner, ModuleType):
            return Reason("may_change_arguments", {"name": function.__name__})
        function = owner
    return Reason("may_change_object", {"kind": type(function).__name__})


NOT_FOLLOWED = Reason("not_followed")


def is_users(function: Any) -> bool:
    """Is the callable a Python function of the program, rather than of an installed package or of Python?"""
    inner = innermost(function)
    return inner is not None and package(inner.__code__.co_filename) is None


def why_not_python(function: Any) -> Reason | None:
    """Return why a function outside of the framework may not be called again; None if it is a plain Python function of
    a package.
    """
    if innermost(function) is None:
        return why_not_kind(function)
    if isinstance(function, MethodType) and not isinstance(function.__self__, type):
        return Reason("method_of_object", {"kind": type(function.__self__).__name__})
    return NOT_FOLLOWED if is_users(function) else None


def why_not_given(args: tuple[Any, ...], kwargs: Mapping[str, Any], is_copied: Callable[[Any], bool]) -> Reason | None:
    """Return why a call with these arguments may not be repeated; None if it may.

    The reason is an argument that the call might change. ``is_copied`` says for other objects whether each repetition
    gets a copy of the object, or cannot change it. The caller copies lists and dicts.

    >>> why_not_given((1.0, [slice(2)]), {}, lambda leaf: False)
    >>> why_not_given((1.0, iter([2.0])), {}, lambda leaf: False)
    Reason(code='object_argument', fields={'kind': 'list_iterator'})
    """
    for value in (*args, *kwargs.values()):
        for _, leaf in leaves(value):
            if isinstance(leaf, FIXED) or type(leaf).__module__ in ("numpy", "numpy.dtypes") or is_copied(leaf):
                continue
            if isinstance(leaf, partial):
                reason = why_not_given(leaf.args, leaf.keywords, is_copied)
                if reason is not None:
                    return reason
            else:
                return Reason("object_argument", {"kind": type(leaf).__name__})
    return None


def closed_over(value: Any, deeper: int = 4) -> Iterator[Any]:
    """Yield the values in the closures of functions in a value, and in the closures of functions among those values.

    For a method, yield its object and the attributes of its object.
    """
    for _, leaf in leaves(value):
        if isinstance(leaf, partial):
            yield from closed_over((leaf.func, leaf.args, leaf.keywords), deeper)
        elif isinstance(leaf, MethodType):
            yield leaf.__self__
            yield getattr(leaf.__self__, "__dict__", None)
        elif isinstance(leaf, FunctionType) and deeper:
            for cell in leaf.__closure__ or ():
                held = contents(cell)
                yield held
                yield from closed_over(held, deeper - 1)


def contents(cell: CellType, empty: Any = None) -> Any:
    """Return the content of a closure cell; ``empty`` if there is none yet."""
    try:
        return cell.cell_contents
    except ValueError:
        return empty
