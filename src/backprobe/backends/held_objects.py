"""Plain Python state that a program may change: attributes, items, globals, cells, arrays, whoever's objects they are.

Nothing is copied but numbers of arrays, and no code of the program runs: objects are read and written past their own
methods.
"""

from __future__ import annotations

import gc
import io
import queue
import sys
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from functools import partial
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
)  # fmt: skip
from typing import Any

import numpy

from backprobe.backends.held_values import codes_of, directly, is_of_program, is_written_here
from backprobe.backends.kept import Kept, content_of, refill
from backprobe.record.containers import SIMPLE
from backprobe.source.user_code import innermost

CONTAINERS = (list, dict, set, deque, bytearray)
NOT_OPENED = (ModuleType, BuiltinFunctionType, MethodType, CodeType, CellType)
GOES_ON = (io.IOBase, queue.Queue, queue.SimpleQueue, threading.Thread)
"""What goes on whatever is put back of it, as an iterator does: so nothing of it is."""

OF_PROCESS = frozenset({
    "backprobe", "logging", "warnings", "re", "linecache", "tokenize", "inspect", "traceback", "importlib", "unittest",
    "asyncio", "concurrent", "multiprocessing", "pytest", "_pytest", "pluggy", "hypothesis", "coverage",
})  # fmt: skip
"""Packages whose objects are no state of a program."""

DEEPEST = 12
MOST = 10_000
LARGEST = 2**26  # bytes of an array
NOTHING = object()


def reached_from(roots: Iterable[Any], is_known: Callable[[Any], bool]) -> Iterator[Any]:
    """These objects and what is reached from them, the nearest first, also through objects of libraries.

    What is known to the framework is among that, and is not opened.
    """
    waiting, seen = deque((one, 0) for one in roots), dict[int, Any]()
    while waiting and len(seen) < MOST:
        one, depth = waiting.popleft()
        if type(one) in SIMPLE or id(one) in seen:
            continue
        seen[id(one)] = one
        yield one
        if depth < DEEPEST and not is_known(one):
            waiting.extend((each, depth + 1) for each in (*directly(one), *_further(one)))


def is_of_process(kind: type) -> bool:
    """Does an object of this class serve the whole process, as a log, a cache or a test runner does?

    It is no state of a program: what is written there is to stay.
    """
    return kind.__module__.partition(".")[0] in OF_PROCESS


def keep_object(one: Any, kept: Kept) -> None:
    """Keep what a run may change of an object itself.

    >>> kept, log = Kept(), [1]
    >>> keep_object(log, kept)
    >>> log.append(2)
    >>> kept.put_back()
    >>> log
    [1]
    """
    function = innermost(one)
    if function is not None:
        if kept.is_new(function, "names"):
            _keep_names(function, kept)
    elif kept.is_new(one, "object"):
        kind = type(one)
        if issubclass(kind, numpy.ndarray):
            _keep_array(one, kept)
        elif kind is ContextVar:
            kept.undo.append(partial(_set, one, one.get(NOTHING)))
        elif issubclass(kind, CONTAINERS):
            kept.undo.append(partial(refill, one, content_of(one)))
        elif issubclass(kind, type) and is_of_program(one):
            kept.undo.append(partial(_assign_class, one, _own(one)))
        if _is_opened(one):
            _keep_attributes(one, kept)


def _further(value: Any) -> list[Any]:
    # What a value holds that is of no concern to whoever asks what a program computes with.
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
    if issubclass(kind, (*NOT_OPENED, *GOES_ON)) or is_of_process(kind):
        return []
    if kind.__module__.partition(".")[0] in sys.stdlib_module_names:
        # the collector of garbage knows what an object of C holds; its dicts may be of its own, as of a cache
        inside = [one for one in gc.get_referents(value) if not isinstance(one, dict | type | ModuleType)]
    else:
        inside = [kind]
        if isinstance(getattr(kind, "__wrapped__", None), GetSetDescriptorType):  # it stands for another object, in C
            inside.append(value.__wrapped__)
    if not _is_opened(value):
        return inside
    return [*inside, *(_attributes(value) or {}).values(), *(one for _, one in _slots(value))]


def _is_opened(value: Any) -> bool:
    # Is it an object whose attributes are state, and not one that goes on where it is?
    kind = type(value)
    if issubclass(kind, (type, FunctionType, *NOT_OPENED, *GOES_ON)) or is_of_process(kind):
        return False
    return is_of_program(kind) or not issubclass(kind, Iterator)


def _attributes(value: Any) -> dict[str, Any] | None:
    # The dictionary of an object; None where it has none, or only by code of its own.
    try:
        own = object.__getattribute__(value, "__dict__")
    except AttributeError:  # one of each thread is read by its class, in C
        is_plain = isinstance(type(value).__getattribute__, WrapperDescriptorType)
        own = value.__dict__ if is_plain and issubclass(type(value), threading.local) else None
    return own if type(own) is dict else None


def _slots(value: Any) -> Iterator[tuple[MemberDescriptorType, Any]]:
    # What is in the slots of an object, each with what reads and writes it; NOTHING in an empty one.
    for base in type(value).__mro__:
        if "__slots__" in vars(base):
            for slot in [one for one in vars(base).values() if isinstance(one, MemberDescriptorType)]:
                try:
                    yield slot, slot.__get__(value)
                except AttributeError:
                    yield slot, NOTHING


def _own(kind: type) -> dict[str, Any]:
    # The attributes of a class that are no methods and the like.
    return {name: one for name, one in vars(kind).items() if not name.startswith("__") and not hasattr(one, "__get__")}


# what is kept, and put back


def _keep_names(function: FunctionType, kept: Kept) -> None:
    # The globals that a function may rebind, unless it is a library's; its closure's cells, and its attributes.
    codes = codes_of(function.__code__) if is_written_here(function) else []
    names = {name for code in codes for name in code.co_names}
    before = {name: function.__globals__.get(name, NOTHING) for name in names}
    kept.undo.append(partial(_rebind, function.__globals__, before))
    kept.undo.append(partial(refill, vars(function), dict(vars(function))))
    for cell in function.__closure__ or ():
        kept.undo.append(partial(_fill, cell, _content(cell)))


def _keep_attributes(value: Any, kept: Kept) -> None:
    own = _attributes(value)
    if own is not None:
        kept.undo.append(partial(refill, own, dict(own)))
    for slot, held in _slots(value):
        kept.undo.append(partial(_assign_slot, value, slot, held))


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


def _set(variable: ContextVar[Any], value: Any) -> None:
    if value is not NOTHING and variable.get(NOTHING) is not value:
        variable.set(value)


def _assign_class(kind: type, before: dict[str, Any]) -> None:
    now = _own(kind)
    for name in now.keys() - before.keys():
        type.__delattr__(kind, name)
    for name, value in before.items():
        if now.get(name, NOTHING) is not value:
            type.__setattr__(kind, name, value)


def _assign_slot(value: Any, slot: MemberDescriptorType, held: Any) -> None:
    try:
        now = slot.__get__(value)
    except AttributeError:
        now = NOTHING
    if now is held:
        return
    if held is NOTHING:
        slot.__delete__(value)
    else:
        slot.__set__(value, held)


def _content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return NOTHING


def _fill(cell: CellType, content: Any) -> None:
    if content is not NOTHING and _content(cell) is not content:
        cell.cell_contents = content
