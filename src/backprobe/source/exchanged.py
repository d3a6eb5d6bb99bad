"""Temporarily runs functions as the edited text of their file defines them."""

from __future__ import annotations

import gc
import linecache
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import count
from types import CodeType, FunctionType, ModuleType
from typing import Any

from backprobe.source.edits import Edit, edited

NUMBER = count()


class NotExchanged(Exception):
    """Raised if the edited text does not compile, or if the running functions were not made from the original text."""


def functions_of(file: str) -> list[FunctionType]:
    """Return the living functions that were made from a file."""
    namespaces = _namespaces(file)
    # Each function refers to its namespace. Asking for these references is faster than looking at every object.
    found = gc.get_referrers(*namespaces) if namespaces else gc.get_objects()
    held = {id(one): one for one in found if type(one) is FunctionType}
    for names in namespaces:  # gc.freeze may hide some functions from the collector
        held |= {id(one): one for one in _held(names.values())}
    return [one for one in held.values() if one.__code__.co_filename == file]


def _held(values: Iterable[Any]) -> Iterator[FunctionType]:
    # Yield the functions among these values, including those in classes and those that decorators wrap.
    for value in [*values]:
        if isinstance(value, type):
            yield from _held(own for own in vars(value).values() if not isinstance(own, type))
        function = getattr(value, "__func__", None) if isinstance(value, staticmethod | classmethod) else value
        function = value.fget if isinstance(value, property) else function
        while type(function) is FunctionType:
            yield function
            function = vars(function).get("__wrapped__")


def names_of(file: str) -> Mapping[str, Any]:
    """Return the global names of a file's module, or of a living function that was made from the file; empty if there
    is neither.
    """
    if namespaces := _namespaces(file):
        return namespaces[0]
    functions = (one for one in gc.get_objects() if type(one) is FunctionType)
    return next((one.__globals__ for one in functions if one.__code__.co_filename == file), {})


def _namespaces(file: str) -> list[dict[str, Any]]:
    # Return the namespaces of the modules that were imported from a file, which may be imported under several names.
    modules = [one for one in [*sys.modules.values()] if isinstance(one, ModuleType)]
    return list({id(vars(one)): vars(one) for one in modules if vars(one).get("__file__") == file}.values())


@contextmanager
def exchanged(edits: Sequence[Edit], alive: Callable[[str], Sequence[FunctionType]]) -> Iterator[Mapping[str, str]]:
    """Inside this context the functions of the edited files run with the edited code. Raises NotExchanged.

    ``alive`` returns the functions of a file. The value of the context maps the file names that edited code has in
    tracebacks to the original file names.
    """
    undo: list[Any] = []
    names: dict[str, str] = {}
    try:
        for file in dict.fromkeys(edit.file for edit in edits):
            own = [edit for edit in edits if edit.file == file]
            names[_exchange(file, own, alive(file), undo)] = file
        yield names
    finally:
        for put_back in reversed(undo):
            put_back()


def _exchange(file: str, edits: Sequence[Edit], alive: Sequence[FunctionType], undo: list[Any]) -> str:
    text = edits[0].text
    folder, last = os.path.split(file)
    name = os.path.join(folder, f"{last.removesuffix('.py')}.edited-{next(NUMBER)}.py")
    other = edited(text, edits)
    try:
        before = compile(text, file, "exec", dont_inherit=True)
        after = compile(other, name, "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        raise NotExchanged("the edited text is no Python") from error
    instead = dict(_pairs(before, after))
    changing = [one for one in alive if one.__code__ in instead]
    touched = {edit.line for edit in edits}
    reached = {line for one in changing for line in _lines(one.__code__)}
    if not touched <= reached | {edit.line for edit in edits if edit.undecorated}:
        raise NotExchanged("the file is not the one that the running functions were made of")
    linecache.cache[name] = (len(other), None, other.splitlines(keepends=True), name)
    undo.append(lambda: linecache.cache.pop(name, None))
    for one in changing:
        if instead[one.__code__].co_freevars != one.__code__.co_freevars:
            raise NotExchanged("the edited function would close over other variables")
    for one in changing:
        undo.append(partial(setattr, one, "__code__", one.__code__))
        one.__code__ = instead[one.__code__]
    for edit in edits:
        if edit.undecorated:
            _undecorate(edit, alive, undo)
    return name


def _pairs(before: CodeType, after: CodeType) -> Iterator[tuple[CodeType, CodeType]]:
    # Yield the code objects of functions and classes in a text, each with the one at the same place in the edited text.
    # Raises NotExchanged if the two texts do not define the same.
    own, others = ([one for one in code.co_consts if isinstance(one, CodeType)] for code in (before, after))
    if [one.co_qualname for one in own] != [one.co_qualname for one in others]:
        raise NotExchanged("the edited text defines other functions")
    for one, other in zip(own, others, strict=True):
        yield one, other
        yield from _pairs(one, other)


def _lines(code: CodeType) -> Iterator[int]:
    for first, last, *_ in code.co_positions():
        if first is not None and last is not None:
            yield from range(first, last + 1)
    for one in code.co_consts:
        if isinstance(one, CodeType):
            yield from _lines(one)


def _undecorate(edit: Edit, alive: Sequence[FunctionType], undo: list[Any]) -> None:
    # Replace a decorated function by the undecorated one in the module or class that holds it.
    *path, name = edit.undecorated.split(".")
    same = (one for one in alive if one.__qualname__ == edit.undecorated and not hasattr(one, "__wrapped__"))
    inside = next(same, None)
    owner: Any = None if inside is None else inside.__globals__
    for step in path:
        owner = _named(owner).get(step)
    held = _named(owner).get(name)
    if inside is None or getattr(held, "__wrapped__", None) is not inside:
        raise NotExchanged("the decorated function is not found")
    put = owner.__setitem__ if isinstance(owner, dict) else partial(setattr, owner)
    undo.append(partial(put, name, held))
    put(name, inside)


def _named(owner: Any) -> Mapping[str, Any]:
    # Return what the names in a namespace or class refer to; nothing for None.
    return owner if isinstance(owner, dict) else {} if owner is None else vars(owner)
