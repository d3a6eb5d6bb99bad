"""Making the reporting copy of a function: same globals, cells and defaults, through every decorator around it."""

from __future__ import annotations

import ast
import functools
import types
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from types import CodeType, FunctionType, MethodType
from typing import Any

from backprobe.errors import NoSource
from backprobe.source.calls import rewrite_calls
from backprobe.source.locate import FUTURE_FLAGS, Definition, locate
from backprobe.source.rewrite import OPEN, rewrite, untyped
from backprobe.source.sites import Site

Opener = Callable[[str, str, tuple[Site, ...]], Callable[[], Any]]
"""From (function name, file, its sites) to what opens a scope each time that the function is entered."""


@dataclass(frozen=True)
class Reporting:
    """The compiled reporting version of one code object."""

    code: CodeType
    sites: tuple[Site, ...]


def reporting(
    function: Any, opener: Opener, *, operations: bool = False, calls: bool = False
) -> Callable[..., Any]:  # fmt: skip
    """A copy of ``function`` that reports each binding to a scope from ``opener``. Raises NoSource.

    With ``calls`` it reports each call and operator with what they are given. A method stays bound, a
    ``functools.partial`` keeps its arguments, and a decorator's wrapper is rebuilt around the rewritten function it
    wraps; nothing of the original is changed.
    """
    if isinstance(function, MethodType):
        return MethodType(reporting(function.__func__, opener, operations=operations, calls=calls), function.__self__)
    if isinstance(function, functools.partial):
        inner = reporting(function.func, opener, operations=operations, calls=calls)
        return functools.partial(inner, *function.args, **function.keywords)
    if not isinstance(function, FunctionType):
        raise NoSource(
            f"{_describe(function)} has no Python source to read names from",
            asked=f"the names in {_describe(function)}",
            found=f"an object of type {type(function).__name__}",
            why="names come from the source text of a Python function",
            next="probe a Python function that calls it, or its __wrapped__ if it has one",
        )
    wrapped = getattr(function, "__wrapped__", None)
    if wrapped is not None:
        return _rewrapped(function, wrapped, reporting(wrapped, opener, operations=operations, calls=calls))
    made = _compiled(function.__code__, function.__code__.co_filename, operations, calls)
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    cells[OPEN] = types.CellType(opener(function.__name__, function.__code__.co_filename, made.sites))
    return _copied(function, made.code, tuple(cells[name] for name in made.code.co_freevars))


def _rewrapped(wrapper: FunctionType, wrapped: Any, inner: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator's wrapper with the function it holds exchanged for the reporting one."""
    made = rebuilt(wrapper, wrapped, inner)
    if made is None:
        raise NoSource(
            f"the decorator around {_describe(wrapped)} hides it",
            asked=f"the names in {_describe(wrapped)}",
            found=f"its wrapper {wrapper.__code__.co_qualname} keeps the function in none of its closure cells",
            why="the wrapper can be rebuilt around a rewritten function only where its closure holds it",
            next="probe the function's __wrapped__, without the decorator",
        )
    return made


DEEPEST = 8


def rebuilt(wrapper: FunctionType, wrapped: Any, inner: Any, depth: int = 0) -> FunctionType | None:
    """A wrapper around another function; a wrapper may hold what it wraps through wrappers of its own."""
    cells = [_exchanged(cell, wrapped, inner, depth) for cell in wrapper.__closure__ or ()]
    if all(new is old for new, old in zip(cells, wrapper.__closure__ or (), strict=True)):
        return None
    return _copied(wrapper, wrapper.__code__, tuple(cells))


def _exchanged(cell: Any, wrapped: Any, inner: Any, depth: int) -> Any:
    try:
        held = cell.cell_contents
    except ValueError:  # an empty cell
        return cell
    if held is wrapped:
        return types.CellType(inner)
    if not isinstance(held, FunctionType) or depth == DEEPEST:
        return cell
    made = rebuilt(held, wrapped, inner, depth + 1)
    return cell if made is None else types.CellType(made)


def _copied(function: FunctionType, code: CodeType, closure: tuple[Any, ...]) -> FunctionType:
    copied = FunctionType(code, function.__globals__, function.__name__, function.__defaults__, closure)
    copied.__kwdefaults__ = function.__kwdefaults__
    copied.__qualname__, copied.__module__ = function.__qualname__, function.__module__
    copied.__dict__.update(function.__dict__)
    return copied


@lru_cache(4096)
def _compiled(code: CodeType, file: str, operations: bool, calls: bool) -> Reporting:
    """Rewrite and compile once per code object and file (equal functions of two files have equal code); about 3 ms."""
    definition = locate(code)
    if any(name.startswith("@") for name in code.co_freevars):
        raise NoSource(f"{code.co_qualname} is already being probed")
    try:
        rewritten = (rewrite_calls if calls else rewrite)(definition.node, definition.lines, operations=operations)
        return Reporting(_compile_inside(rewritten.node, definition, code), rewritten.sites)
    except RecursionError:
        raise NoSource(
            f"an expression in {code.co_qualname} is nested too deeply to be rewritten",
            asked=f"the names in {code.co_qualname}", found=f"{file}:{code.co_firstlineno}",
            why="syntax trees are walked recursively, and Python limits how deep", next="give a part of it a name",
        ) from None  # fmt: skip


def _compile_inside(node: Any, definition: Definition, code: CodeType) -> CodeType:
    """Compile a definition within the classes (for private names) and free variables (for its closure) it had.

    The factory around it is never run: only the compiled function is taken out of it. Its own name and those of the
    classes are declared as they are outside, or the compiler would take them for the factory's.
    """
    free = [name for name in code.co_freevars if name != "__class__"]
    original = node.name
    node.name = "@body"
    inner: ast.stmt = node
    for name in reversed(definition.classes):
        inner = untyped(ast.copy_location(ast.ClassDef(name, [], [], [inner], []), node))
    outer_classes = definition.classes[:1]
    declared: list[ast.stmt] = [ast.Nonlocal([name]) if name in free else ast.Global([name]) for name in outer_classes]
    place = untyped(ast.FunctionDef("@place", _arguments([]), [*declared, inner], []))
    factory = ast.FunctionDef("@factory", _arguments([*free, OPEN]), [place], [])
    module = ast.fix_missing_locations(ast.Module([*definition.imports, untyped(factory)], []))
    compiled = compile(module, code.co_filename, "exec", flags=code.co_flags & FUTURE_FLAGS, dont_inherit=True)
    body = _find_code(compiled, "@body")
    assert body is not None
    body = _requalified(body, body.co_qualname, code.co_qualname)
    return body.replace(co_name=original, co_firstlineno=code.co_firstlineno)


def _requalified(code: CodeType, within: str, name: str) -> CodeType:
    """The same code, and all code in it, under the qualified name that it has in the original."""
    constants = tuple(
        _requalified(constant, within, name) if isinstance(constant, CodeType) else constant
        for constant in code.co_consts
    )
    return code.replace(co_consts=constants, co_qualname=name + code.co_qualname.removeprefix(within))


def _arguments(names: list[str]) -> ast.arguments:
    return ast.arguments([], [ast.arg(name) for name in names], None, [], [], None, [])


def _find_code(code: CodeType, name: str) -> CodeType | None:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            found = constant if constant.co_name == name else _find_code(constant, name)
            if found is not None:
                return found
    return None


def _describe(function: Any) -> str:
    return str(getattr(function, "__name__", None) or type(function).__name__)
