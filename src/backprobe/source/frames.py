"""Evaluates names and expressions in a running frame without running any user code."""

from __future__ import annotations

import ast
import ctypes
import inspect
import sys
from collections.abc import Callable, Mapping
from functools import lru_cache
from types import (
    BuiltinFunctionType,
    ClassMethodDescriptorType,
    CodeType,
    FrameType,
    FunctionType,
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodDescriptorType,
    MethodType,
    ModuleType,
    WrapperDescriptorType,
)
from typing import Any

from backprobe.source.bytecode import names_hidden
from backprobe.source.locate import is_class, is_module
from backprobe.source.raw_variables import raw_variables, variables_of_comprehensions

WRITES_BACK = sys.version_info[:2] == (3, 12)
KEEPS = sys.version_info < (3, 13)
"""Does a frame store the dict that ``f_locals`` returns, with old values of variables, until the frame is left?"""
TRACING = frozenset({"call", "line", "return", "exception", "opcode"})
UNKNOWN = object()
"""Returned for a value that does not exist, or that cannot be known without running code."""

CONTAINERS = "torch.nn.modules.container"
HELD = ("_parameters", "_buffers", "_modules")
"""The dicts in which PyTorch modules store some of the values that were assigned to attributes."""


def name_in(frame: FrameType, name: str) -> Any:
    """Return the value of a local, global or builtin name in a frame, or ``UNKNOWN``."""
    raw = raw_variables(frame)
    if raw:
        return _beside_raw(frame, name, raw)
    for namespace in (_locals_of(frame, name), frame.f_globals, frame.f_builtins):
        if name in namespace:
            return namespace[name]
    return UNKNOWN


def variables_in(frame: FrameType) -> dict[str, Any]:
    """Return all local variables of a frame that have a value and can be read safely."""
    if raw_variables(frame):
        code = frame.f_code
        known = {name: name_in(frame, name) for name in (*code.co_varnames, *code.co_cellvars, *code.co_freevars)}
        return {name: value for name, value in known.items() if value is not UNKNOWN}
    return dict(frame.f_locals)


def _beside_raw(frame: FrameType, name: str, raw: frozenset[str]) -> Any:
    # Return the value of a variable in a frame, or ``UNKNOWN``. Some variables of the frame must not be read, so each
    # variable is read separately.
    code = frame.f_code
    if name in raw and name in code.co_freevars:
        return UNKNOWN
    found = _variable(frame, name)
    if found is not UNKNOWN or is_class(code):
        return found
    return frame.f_globals.get(name, frame.f_builtins.get(name, UNKNOWN))


def _locals_of(frame: FrameType, name: str) -> Mapping[str, Any]:
    # Return a namespace that contains the local variable of this name, if the frame has one.
    #
    # Python 3.12 writes the dict that ``f_locals`` returned back into the frame. This is wrong while a comprehension
    # runs whose variable is also global or in an outer closure. In that case each variable is read separately.
    at_risk = _at_risk(frame.f_code) if WRITES_BACK else ()
    if not at_risk:
        return frame.f_locals
    if is_module(frame.f_code):
        return _of_module(frame, name)
    found = _variable(frame, name)
    if found is not UNKNOWN:
        return {name: found}
    is_comprehension_running = any(_variable(frame, hidden) is not UNKNOWN for hidden in at_risk)
    return {} if is_comprehension_running else frame.f_locals


def _of_module(frame: FrameType, name: str) -> Mapping[str, Any]:
    # Return a namespace that contains the variable of this name in a module's frame, if there is one.
    #
    # After a comprehension has run, the slot of its variable may hold a value that Python wrote back. ``f_locals``
    # would return this value instead of the module's own variable with the same name.
    running = variables_of_comprehensions(frame)
    if name in running:
        found = _variable(frame, name)
        return {} if found is UNKNOWN else {name: found}
    is_elsewhere = name in frame.f_globals or name in frame.f_builtins
    return {} if is_elsewhere or running or name in _at_risk(frame.f_code) else frame.f_locals


def forget(frame: FrameType) -> None:
    """Release the values that a frame has stored because ``f_locals`` was read.

    They are not released if the program itself holds the dict, as the result of ``locals()``. They are also not
    released inside a trace function of the frame, because Python then writes the dict back into the variables.
    """
    if KEEPS and frame.f_code.co_flags & inspect.CO_OPTIMIZED and not _is_traced_now(frame):
        kept = frame.f_locals
        if sys.getrefcount(kept) == 3:  # referenced by the frame, by ``kept``, and by the call itself
            kept.clear()
            # This writes nothing, but it marks the dict as up to date. Otherwise the next event of a trace function
            # would fill it again.
            _writer()(frame, 0)


def _is_traced_now(frame: FrameType) -> bool:
    # Is this code being called by a trace function of the frame?
    called: FrameType | None = sys._getframe(1) if sys.gettrace() is not None else None
    while called is not None and called.f_back is not frame:
        called = called.f_back
    if called is None or called.f_code.co_argcount < len(("frame", "event", "arg")):
        return False
    given = called.f_locals.values()
    return any(value is frame for value in given) and any(type(value) is str and value in TRACING for value in given)


@lru_cache(4096)
def _at_risk(code: CodeType) -> frozenset[str]:
    hidden = names_hidden(code)
    return hidden.intersection(code.co_freevars) if code.co_flags & inspect.CO_OPTIMIZED else hidden


def _variable(frame: FrameType, name: str) -> Any:
    try:
        return _getter()(frame, name)
    except NameError:
        return UNKNOWN


@lru_cache(1)
def _writer() -> Callable[[FrameType, int], None]:
    # Return Python's own C function that writes the stored values back into a frame's variables. The frame then counts
    # as up to date.
    prototype = ctypes.PYFUNCTYPE(None, ctypes.py_object, ctypes.c_int)
    return prototype(("PyFrame_LocalsToFast", ctypes.pythonapi))


@lru_cache(1)
def _getter() -> Callable[[FrameType, str], Any]:
    prototype = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object, ctypes.py_object)
    return prototype(("PyFrame_GetVar", ctypes.pythonapi))


def value_in(frame: FrameType, node: ast.AST | None) -> Any:
    """Return the value of an expression of names, attributes, constants, items of containers, and sums or differences
    of integers; ``UNKNOWN`` if it is not known without running code.
    """
    match node:
        case ast.Name(id=name):
            return name_in(frame, name)
        case ast.Constant(value=value):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int(number))):
            return -number
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() as operator, right=right):
            return _sum(value_in(frame, left), value_in(frame, right), isinstance(operator, ast.Sub))
        case ast.Attribute(value=owner, attr=name):
            return attribute(value_in(frame, owner), name)
        case ast.Subscript(value=owner, slice=index):
            return _item(value_in(frame, owner), value_in(frame, index))
    return UNKNOWN


def attribute(owner: Any, name: str) -> Any:
    """Return the attribute of an object; ``UNKNOWN`` if there is none, or if it is computed when it is read."""
    if owner is UNKNOWN:
        return UNKNOWN
    own = _namespace(owner)
    if isinstance(owner, ModuleType):
        return own.get(name, UNKNOWN)
    if name in own and not isinstance(owner, type):
        return own[name]
    for held in HELD:
        kept = own.get(held)
        if isinstance(kept, dict) and name in kept:
            return kept[name]
    return _bound(inspect.getattr_static(owner, name, UNKNOWN), owner)


def _namespace(owner: Any) -> Mapping[str, Any]:
    try:
        return object.__getattribute__(owner, "__dict__")  # type: ignore[no-any-return]  # a namespace
    except (AttributeError, TypeError):  # TypeError: its ``__class__`` is another class
        return {}


def _bound(found: Any, owner: Any) -> Any:
    # Return the value of an attribute of a type as an object of this type would return it; ``UNKNOWN`` if it is
    # computed when it is read.
    if isinstance(found, FunctionType) and not isinstance(owner, type):
        return MethodType(found, owner)
    if isinstance(found, staticmethod):
        return found.__func__
    if isinstance(found, classmethod):
        return MethodType(found.__func__, owner if isinstance(owner, type) else type(owner))
    if isinstance(found, MethodDescriptorType | WrapperDescriptorType | ClassMethodDescriptorType):
        return found if isinstance(owner, type) else found.__get__(owner)
    if isinstance(found, MemberDescriptorType) and not isinstance(owner, type):
        try:
            return found.__get__(owner)
        except AttributeError:  # the slot is empty
            return UNKNOWN
    if isinstance(found, GetSetDescriptorType | property) or hasattr(type(found), "__get__"):
        return found if isinstance(found, BuiltinFunctionType) else UNKNOWN
    return found


def _sum(left: Any, right: Any, is_negative: bool) -> Any:
    # Return the sum or difference of two integers, such as ``i + 1``, because no code of the program computes it. For
    # anything else return ``UNKNOWN``.
    if type(left) is not int or type(right) is not int:
        return UNKNOWN
    return left - right if is_negative else left + right


ITEMS = {
    "Sequential.__getitem__": ("_modules", list),
    "ModuleList.__getitem__": ("_modules", list),
    "ModuleDict.__getitem__": ("_modules", dict),
    "ParameterDict.__getitem__": ("_parameters", dict),
}
"""By method of a library that returns an item of a module's container: the dict that holds the items, and the type of
container (list or dict) that the items form.
"""


def _items(owner: Any) -> Any:
    # Return the items of PyTorch's container of modules as a list or dict. Any other object is returned as it is.
    method = inspect.getattr_static(type(owner), "__getitem__", None)
    held, kind = ITEMS.get(getattr(method, "__qualname__", ""), ("", list))
    if not isinstance(method, FunctionType) or method.__module__ != CONTAINERS or not held:
        return owner
    kept = _namespace(owner).get(held, {})
    return [*kept.values()] if kind is list else kept


def _item(owner: Any, index: Any) -> Any:
    owner = owner if owner is UNKNOWN or type(owner) in (list, tuple, dict) else _items(owner)
    if type(owner) not in (list, tuple, dict) or type(index) not in (int, str, bool):
        return UNKNOWN
    try:
        return owner[index]
    except (IndexError, KeyError):
        return UNKNOWN
