"""Tells which calls can be repeated without side effects: they only compute, from values that they cannot change."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from types import (
    BuiltinFunctionType,
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
    """The value of ``tensor.T``, for example."""
    return getattr(tensor, name)


def with_element(tensor: Any, index: Any, value: Any) -> Any:
    """The tensor after ``tensor[index] = value``."""
    tensor[index] = value
    return tensor


def items_of(tensor: Any) -> tuple[Any, ...]:
    """The items of a tensor, by iteration."""
    return tuple(tensor)


WITHOUT_CALL = (attribute_of, with_element, items_of)
"""Functions that stand for computations on a tensor that are not written as a call or an operator."""
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
"""Types of values that a call can't change, or that are no state of the program, such as functions."""


def is_python_computing(function: Any) -> bool:
    """Is it a builtin Python function that only computes, or one of ``WITHOUT_CALL``?

    A builtin method is neither, because it may change its object.

    >>> is_python_computing(sum), is_python_computing(next), is_python_computing([1].pop)
    (True, False, False)
    """
    if any(function is one for one in WITHOUT_CALL):  # an object may refuse to be hashed or compared
        return True
    if not isinstance(function, BuiltinFunctionType) or not isinstance(function.__self__, ModuleType):
        return False
    home = function.__module__
    return home in MATHEMATICAL or (home == "builtins" and function.__name__ in COMPUTING)


def why_not_kind(function: Any) -> Reason:
    """The reason not to repeat a call of something other than a Python function."""
    if isinstance(function, BuiltinFunctionType):
        owner = function.__self__
        if owner is None or isinstance(owner, ModuleType):
            return Reason("may_change_arguments", {"name": function.__name__})
        function = owner
    return Reason("may_change_object", {"kind": type(function).__name__})


NOT_FOLLOWED = Reason("not_followed")


def is_users(function: Any) -> bool:
    """Is it a Python function outside of all installed packages?"""
    inner = innermost(function)
    return inner is not None and package(inner.__code__.co_filename) is None


def why_not_python(function: Any) -> Reason | None:
    """The reason not to call a function outside of the framework again; None if it may be called again."""
    if innermost(function) is None:
        return why_not_kind(function)
    if isinstance(function, MethodType) and not isinstance(function.__self__, type):
        return Reason("method_of_object", {"kind": type(function.__self__).__name__})
    return NOT_FOLLOWED if is_users(function) else None


def why_not_given(args: tuple[Any, ...], kwargs: Mapping[str, Any], is_copied: Callable[[Any], bool]) -> Reason | None:
    """The reason not to repeat a call with these arguments: one is an object that the call might change.

    None if there is no such object. ``is_copied`` tells for further objects that each repetition gets a copy, or cannot
    change the object. The caller copies lists and dicts.

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
    """The values in the closures of functions in a value, and in the closures of functions among these values.

    A method counts as its object and the object's attributes.
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


def contents(cell: Any) -> Any:
    """The content of a closure's cell; None if it is empty."""
    try:
        return cell.cell_contents
    except ValueError:
        return None
