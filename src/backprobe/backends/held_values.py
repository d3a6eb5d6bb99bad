"""Finds the values that a program holds: closure values, the globals that its functions name, and the contents of all
these.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Set
from functools import partial
from types import BuiltinFunctionType, CodeType, FunctionType, MemberDescriptorType, MethodType, ModuleType
from typing import Any

from backprobe.backends.pure_calls import contents
from backprobe.record.containers import SIMPLE, children
from backprobe.source.user_code import innermost, package

DEEPEST = 8  # the longest chain of functions, containers and objects that hold one another
MOST = 20_000
NOT_OPENED = (ModuleType, type, FunctionType, BuiltinFunctionType)


def held_by(*values: Any) -> Iterator[Any]:
    """Yield these values and all values that they hold, each once, as far as they can be found without running any
    code. Plain numbers and texts are left out, and the depth and the number of values are limited.

    - A function holds the values in its closure, and the globals that it names. A method also holds its object.
    - A container holds its items.
    - An object of one of the program's own classes holds its attributes.
    - A library's object holds only those attributes that are functions.

    >>> inner = {3, 4}
    >>> any(one is inner for one in held_by(lambda: inner))
    True
    """
    waiting = [(one, 0) for one in reversed(values)]
    seen: dict[int, Any] = {}
    while waiting and len(seen) < MOST:
        value, depth = waiting.pop()
        if type(value) in SIMPLE or id(value) in seen or depth > DEEPEST:
            continue
        seen[id(value)] = value
        yield value
        waiting += [(one, depth + 1) for one in directly(value)]


def directly(value: Any) -> Iterable[Any]:
    """Return the values that a value holds directly."""
    inside = children(value)
    if inside is not None:
        return [item for _, item in inside]
    if issubclass(type(value), Set | Mapping):
        return _items(value)
    function = innermost(value)
    if function is None:
        return () if isinstance(value, NOT_OPENED) else attributes(value)
    if function is value:
        return [*_bound(function), *_named(function)]
    own = _named(value) if isinstance(value, FunctionType) else ()  # a decorator's wrapper names globals, too
    return [*_bound(value), function, *own]


def _bound(function: Any) -> list[Any]:
    # Return the values bound to a callable: a method's object, a partial's arguments, or a function's closure and
    # defaults.
    if isinstance(function, MethodType):
        return [function.__self__, function.__func__]
    if isinstance(function, partial):
        return [function.func, function.args, function.keywords]
    defaults = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
    return [*(contents(cell) for cell in function.__closure__ or ()), *defaults]


def _named(function: FunctionType) -> Iterator[Any]:
    # Yield the globals that a function and its inner functions name. Of a module or class, yield the attributes that
    # they name.
    #
    # The globals of a library's function are left out, because they are caches and settings of the library.
    if not is_written_here(function):
        return
    names = dict.fromkeys(name for code in codes_of(function.__code__) for name in code.co_names)
    for one in [function.__globals__[name] for name in names if name in function.__globals__]:
        if not isinstance(one, ModuleType | type):
            yield one
        elif is_loaded_from_here(one):
            yield from (vars(one)[name] for name in names if name in vars(one))


def codes_of(code: CodeType) -> list[CodeType]:
    """Return a code object and the code objects nested in it, such as inner functions and comprehensions."""
    codes = [code]
    for one in codes:
        codes += [inner for inner in one.co_consts if isinstance(inner, CodeType)]
    return codes


def is_loaded_from_here(owner: ModuleType | type) -> bool:
    """Does the module or class belong to the program, rather than to an installed package or to Python?"""
    file = getattr(owner if isinstance(owner, ModuleType) else sys.modules.get(owner.__module__), "__file__", None)
    return file is not None and package(file) is None


def _items(value: Any) -> list[Any]:
    # Return the items of a plain Python set or mapping. Other classes are not read, because reading their items may run
    # code.
    if type(value).__module__ not in ("builtins", "collections", "types"):
        return []
    return list(value.values()) if isinstance(value, Mapping) else list(value)


def attributes(value: Any) -> list[Any]:
    """Return the attributes of an object, from its dictionary or slots.

    If the class belongs to a library, only attributes that are functions are returned. Such an object may be a function
    that a decorator has wrapped.
    """
    try:
        found = list(object.__getattribute__(value, "__dict__").values())
    except (AttributeError, TypeError):
        found = []
    if not is_of_program(type(value)):
        return [one for one in found if isinstance(one, FunctionType | MethodType | partial)]
    for base in type(value).__mro__:
        for slot in [one for one in vars(base).values() if isinstance(one, MemberDescriptorType)]:
            try:
                found.append(slot.__get__(value))
            except AttributeError:  # the slot is empty
                continue
    return found


def is_written_here(function: FunctionType) -> bool:
    """Does the function belong to the program, rather than to an installed package or to Python?"""
    return package(function.__code__.co_filename) is None


def is_of_program(kind: type) -> bool:
    """Does the class belong to the program, rather than to an installed package or to Python?"""
    home = sys.modules.get(kind.__module__)
    file = getattr(home, "__file__", None)
    if home is None or file is None:  # for example defined in an interactive session, or built into Python
        return home is not None and kind.__module__ not in sys.stdlib_module_names
    return package(file) is None
