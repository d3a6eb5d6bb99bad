"""Plain Python state that a program may change: attributes, items, globals, cells and arrays, of any object.

Only the numbers of arrays are copied. Objects are read and written without calling their own methods, so no code of the
program runs.
"""

from __future__ import annotations

import gc
import sys
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from functools import partial
from operator import is_not
from types import (
    BuiltinFunctionType,
    CellType,
    CodeType,
    FunctionType,
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
    WrapperDescriptorType,
)
from typing import Any

import numpy

from backprobe.backends.held_values import codes_of, directly, is_loaded_from_here, is_of_program, is_written_here
from backprobe.backends.iterator_copies import Place
from backprobe.backends.kept import Kept, content_of, refill
from backprobe.backends.pure_calls import contents
from backprobe.backends.taken import is_stream
from backprobe.record.containers import SIMPLE

CONTAINERS = (list, dict, set, deque, bytearray)
NOT_OPENED = (ModuleType, BuiltinFunctionType, MethodType, CodeType, CellType)
OF_PROCESS = frozenset(
    {
        "backprobe",
        "logging",
        "warnings",
        "re",
        "linecache",
        "tokenize",
        "inspect",
        "traceback",
        "importlib",
        "unittest",
        "asyncio",
        "concurrent",
        "multiprocessing",
        "pytest",
        "_pytest",
        "pluggy",
        "hypothesis",
        "coverage",
    }
)
"""Packages whose objects are not part of a program's state."""

DEEPEST = 12
MOST = 10_000
LARGEST = 2**26  # in bytes: larger arrays are not copied
NOTHING = object()


def reached_from(roots: Iterable[Any], is_known: Callable[[Any], bool]) -> Iterator[Any]:
    """Yield these objects and those that they refer to, nearest first, also through objects of libraries.

    Plain numbers and texts are left out, and the depth and the number of objects are limited. Objects of the framework
    are yielded, but only iterators among their attributes are followed further.
    """
    waiting, seen = deque((one, 0) for one in roots), dict[int, Any]()
    while waiting and len(seen) < MOST:
        one, depth = waiting.popleft()
        if type(one) in SIMPLE or id(one) in seen:
            continue
        seen[id(one)] = one
        yield one
        if depth < DEEPEST:
            inside = _iterators(one) if is_known(one) else (*directly(one), *_further(one))
            waiting.extend((each, depth + 1) for each in inside)


def goes_on(kind: type) -> bool:
    """Does an object of this class keep running even if its state is restored, such as a thread, or serve the whole
    process, such as a logger?

    Such an object is not part of a program's state, so writes to it are not undone.
    """
    return is_stream(kind) or issubclass(kind, threading.Thread) or kind.__module__.partition(".")[0] in OF_PROCESS


def keep_object(one: Any, kept: Kept) -> None:
    """Save the parts of an object that a run may change, so that ``kept`` can restore them.

    >>> kept, log = Kept(), [1]
    >>> keep_object(log, kept)
    >>> log.append(2)
    >>> kept.put_back()
    >>> log
    [1]
    """
    if not kept.is_new(one, "places"):
        return
    if isinstance(one, numpy.ndarray):
        _keep_array(one, kept)
    for content, write in places(one):
        kept.undo.append(partial(write, content))


def places(one: Any) -> Iterator[Place]:
    """Yield the writable places in which an object holds other objects: rebindable names, items and attributes."""
    kind = type(one)
    if kind is FunctionType:
        yield from _places_of_function(one)
    elif kind is ContextVar:
        yield [one.get(NOTHING)], partial(_set, one)
    elif issubclass(kind, CONTAINERS):
        yield content_of(one), partial(refill, one)
    elif issubclass(kind, type) and is_of_program(one):
        yield _own(one), partial(_assign_class, one)
    if _is_opened(one):
        own = _attributes(one)
        if own is not None:
            yield dict(own), partial(refill, own)
        for slot, held in _slots(one):
            yield [held], partial(_assign_slot, one, slot)


def _iterators(known: Any) -> list[Any]:
    return [one for one in (_attributes(known) or {}).values() if isinstance(one, Iterator)]


def _further(value: Any) -> list[Any]:
    # Return objects that a value refers to and that ``directly`` does not return, because programs do not compute with
    # them.
    kind = type(value)
    if kind is FunctionType:
        codes = codes_of(value.__code__) if is_written_here(value) else []
        named = [value.__globals__.get(name) for code in codes for name in code.co_names]
        return [*vars(value).values(), *(one for one in named if isinstance(one, type) and is_of_program(one))]
    if issubclass(kind, type):
        return [*_own(value).values()] if is_of_program(value) else []
    if issubclass(kind, weakref.ref):
        return [weakref.ref.__call__(value)]
    if kind is ContextVar:
        return [value.get(None)]
    if issubclass(kind, NOT_OPENED) or goes_on(kind):
        return []
    if kind.__module__.partition(".")[0] in sys.stdlib_module_names:
        # the garbage collector knows the contents of a C object; dicts inside it may be private, as in a cache
        inside = [one for one in gc.get_referents(value) if not isinstance(one, dict | type | ModuleType)]
    else:
        inside = [kind]
        # the value is a proxy, written in C, for another object
        if isinstance(getattr(kind, "__wrapped__", None), GetSetDescriptorType):
            inside.append(value.__wrapped__)
    if not _is_opened(value):
        return inside
    return [*inside, *(_attributes(value) or {}).values(), *(one for _, one in _slots(value))]


def _is_opened(value: Any) -> bool:
    # Are the object's attributes part of the program's state, rather than of an object that keeps running?
    kind = type(value)
    if issubclass(kind, (type, FunctionType, *NOT_OPENED)) or goes_on(kind):
        return False
    return is_of_program(kind) or not issubclass(kind, Iterator)


def _attributes(value: Any) -> dict[str, Any] | None:
    # Return the ``__dict__`` of an object; None if there is none, or if only code of the object's own class can read
    # it.
    try:
        own = object.__getattribute__(value, "__dict__")
    except AttributeError:  # the dictionary of a thread-local object is only read through its class, in C
        is_plain = isinstance(type(value).__getattribute__, WrapperDescriptorType)
        own = value.__dict__ if is_plain and issubclass(type(value), threading.local) else None
    return own if type(own) is dict else None


def _slots(value: Any) -> Iterator[tuple[MemberDescriptorType, Any]]:
    # Yield the slots of an object, each as its descriptor and its content, which is NOTHING for an empty slot.
    for base in type(value).__mro__:
        if "__slots__" in vars(base):
            for slot in [one for one in vars(base).values() if isinstance(one, MemberDescriptorType)]:
                yield slot, _content_of_slot(value, slot)


def _content_of_slot(value: Any, slot: MemberDescriptorType) -> Any:
    try:
        return slot.__get__(value)
    except AttributeError:
        return NOTHING


def _own(kind: type) -> dict[str, Any]:
    # Return the attributes of a class except methods, descriptors, and names that begin with two underscores.
    return {name: one for name, one in vars(kind).items() if not name.startswith("__") and not hasattr(one, "__get__")}


# Functions for saving and restoring objects.


def _places_of_function(function: FunctionType) -> Iterator[Place]:
    # Yield the places of a function: the globals that it may rebind, its attributes, closure cells and default values.
    #
    # The globals include those of modules that the function names. They are left out for a function of a library.
    codes = codes_of(function.__code__) if is_written_here(function) else []
    names = {name for code in codes for name in code.co_names}
    modules = [one for one in map(function.__globals__.get, names) if isinstance(one, ModuleType)]
    for owner in (function.__globals__, *(vars(one) for one in modules if is_loaded_from_here(one))):
        yield {name: owner.get(name, NOTHING) for name in names}, partial(_rebind, owner)
    yield dict(vars(function)), partial(refill, vars(function))
    for cell in function.__closure__ or ():
        yield [contents(cell, NOTHING)], partial(_fill, cell)
    if function.__defaults__:
        yield [*function.__defaults__], partial(_assign_defaults, function)
    if function.__kwdefaults__:
        yield dict(function.__kwdefaults__), partial(refill, function.__kwdefaults__)


def _keep_array(array: Any, kept: Kept) -> None:
    if array.flags.writeable and array.nbytes <= LARGEST:
        kept.undo.append(partial(_write, array, numpy.array(array, subok=False)))


def _write(array: Any, numbers: Any) -> None:
    plain = numpy.asarray(array)
    is_same = plain.dtype != object and plain.shape == numbers.shape and plain.tobytes() == numbers.tobytes()
    if not is_same and plain.shape == numbers.shape:
        plain[...] = numbers


def _rebind(names: dict[str, Any], before: dict[str, Any]) -> None:
    for name, value in before.items():
        if value is NOTHING:
            names.pop(name, None)
        elif names.get(name, NOTHING) is not value:
            names[name] = value


def _set(variable: ContextVar[Any], content: list[Any]) -> None:
    (value,) = content
    if value is not NOTHING and variable.get(NOTHING) is not value:
        variable.set(value)


def _assign_defaults(function: FunctionType, values: list[Any]) -> None:
    now = function.__defaults__ or ()
    if len(now) != len(values) or any(map(is_not, now, values)):
        function.__defaults__ = tuple(values)


def _assign_class(kind: type, before: dict[str, Any]) -> None:
    now = _own(kind)
    for name in now.keys() - before.keys():
        type.__delattr__(kind, name)
    for name, value in before.items():
        if now.get(name, NOTHING) is not value:
            type.__setattr__(kind, name, value)


def _assign_slot(value: Any, slot: MemberDescriptorType, content: list[Any]) -> None:
    (held,) = content
    if _content_of_slot(value, slot) is held:
        return
    if held is NOTHING:
        slot.__delete__(value)
    else:
        slot.__set__(value, held)


def _fill(cell: CellType, content: list[Any]) -> None:
    (value,) = content
    if value is not NOTHING and contents(cell, NOTHING) is not value:
        cell.cell_contents = value
