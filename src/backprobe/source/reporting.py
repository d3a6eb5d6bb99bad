"""Makes the reporting copy of a function: a function with the rewritten code, and the same globals, cells and
defaults.
"""

from __future__ import annotations

import ast
import copy
import types
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from types import CodeType, FunctionType
from typing import Any

from backprobe.errors import NoSource
from backprobe.source.listener import Opener
from backprobe.source.locate import FUTURE_FLAGS, locate
from backprobe.source.rewrite import OPEN, rewrite
from backprobe.source.sites import Site
from backprobe.source.syntax_nodes import refusing_deep_nesting, untyped
from backprobe.source.wrappers import around, copied


def reporting(function: Any, opener: Opener, *, operations: bool = False, calls: bool = False) -> Callable[..., Any]:
    """Return a copy of ``function`` that reports each binding to a listener from ``opener``. Raises NoSource.

    With ``operations``, it also reports operations without a name. With ``calls``, it also reports calls and operators
    with their sites. A method stays bound, a ``functools.partial`` keeps its arguments, and a decorator's wrapper is
    rebuilt around the rewritten function. The original is not changed.
    """
    if isinstance(function, FunctionType) and not hasattr(function, "__wrapped__"):
        return _rewritten(function, opener, operations, calls)
    return around(function, lambda plain: _rewritten(plain, opener, operations, calls))


def _rewritten(function: FunctionType, opener: Opener, operations: bool, calls: bool) -> FunctionType:
    cell = types.CellType()
    copy, sites = reporting_copy(function, cell, operations=operations, calls=calls)
    cell.cell_contents = opener(function.__name__, function.__code__.co_filename, sites)
    return copy


def reporting_copy(
    function: FunctionType,
    opened: types.CellType,
    *,
    operations: bool = False,
    calls: bool = False,
) -> tuple[FunctionType, tuple[Site, ...]]:
    """Return a copy of a plain function, and its sites. The function in the cell ``opened`` returns the listener of a
    call.

    Raises NoSource.
    """
    code = function.__code__
    made, sites, cells = _compiled(code, code.co_filename, operations, calls)
    own = (*(function.__closure__ or ()), opened)
    return copied(function, made, tuple([own[cell] for cell in cells])), sites


def sites_of(function: FunctionType, *, operations: bool = False) -> tuple[Site, ...]:
    """Return the sites in the text of a plain function. Raises NoSource."""
    return _compiled(function.__code__, function.__code__.co_filename, operations, False)[1]


@lru_cache(4096)
def _compiled(
    code: CodeType, file: str, operations: bool, calls: bool
) -> tuple[CodeType, tuple[Site, ...], tuple[int, ...]]:
    # Return the rewritten code, its sites, and the indices of the function's cells that the code uses. The last cell is
    # that of ``OPEN``.
    #
    # This takes about 3 ms, once for each code object and file. The file is part of the key, because equal functions in
    # two files have equal code.
    if any(name.startswith("@") for name in code.co_freevars):
        raise NoSource(f"{code.co_qualname} is already being probed")
    definition = locate(code)
    place = f"{file}:{code.co_firstlineno}"
    with refusing_deep_nesting(code.co_qualname, asked=f"the names in {code.co_qualname}", found=place):
        node = copy.deepcopy(definition.node) if definition.is_shared else definition.node
        node, sites = rewrite(node, definition.lines, operations=operations, calls=calls)
        made = _compile_inside(node, definition.classes, code)
        places = {name: at for at, name in enumerate((*code.co_freevars, OPEN))}
        return made, sites, tuple([places[name] for name in made.co_freevars])


def _compile_inside(node: Any, classes: tuple[str, ...], code: CodeType) -> CodeType:
    # Compile a definition inside its original classes (for private names) and with its free variables (for its
    # closure). The factory around the definition never runs; only the code of the function is taken from it. The names
    # of the function and its classes are declared as in the original, because the compiler would otherwise treat them
    # as local to the factory.
    free = [name for name in code.co_freevars if name != "__class__"]
    original = node.name
    node.name = "@body"
    if code.co_firstlineno < node.lineno:  # the code of a function begins at its first decorator
        first = ast.Constant(None, lineno=code.co_firstlineno, col_offset=0, end_lineno=None, end_col_offset=None)
        node.decorator_list = [first]
    inner: ast.stmt = node
    for name in reversed(classes):
        inner = untyped(ast.copy_location(ast.ClassDef(name, [], [], [inner], []), node))
    outer_classes = classes[:1]
    declared: list[ast.stmt] = [ast.Nonlocal([name]) if name in free else ast.Global([name]) for name in outer_classes]
    place = untyped(ast.FunctionDef("@place", _arguments([]), declared, []))
    factory = ast.FunctionDef("@factory", _arguments([*free, OPEN]), [place], [])
    module = ast.fix_missing_locations(ast.Module([untyped(factory)], []))
    place.body.append(inner)
    compiled = compile(module, code.co_filename, "exec", flags=code.co_flags & FUTURE_FLAGS, dont_inherit=True)
    body = _find_code(compiled, "@body")
    assert body is not None
    body = _as_inside(body, body.co_qualname, code.co_qualname, {_stand(own): own for own in _definitions(code)})
    return body.replace(co_name=original)


def _as_inside(code: CodeType, within: str, name: str, originals: Mapping[Any, CodeType]) -> CodeType:
    # Return the same code with the original's qualified name, and with the original code of its inner functions. Newly
    # compiled inner functions would differ, because the compiler takes a module's imports into account.
    constants = tuple(
        originals.get(_stand(constant)) or _as_inside(constant, within, name, originals)
        if isinstance(constant, CodeType)
        else constant
        for constant in code.co_consts
    )
    return code.replace(co_consts=constants, co_qualname=name + code.co_qualname.removeprefix(within))


def _definitions(code: CodeType) -> Iterator[CodeType]:
    # Yield the code of functions and classes defined in a function, and in its comprehensions.
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            is_comprehension = constant.co_name.startswith("<") and constant.co_name != "<lambda>"
            yield from _definitions(constant) if is_comprehension else (constant,)


def _stand(code: CodeType) -> tuple[Any, ...]:
    # Return a key that distinguishes a code object from others in the same function: its name, variables and positions.
    places = [place for place in code.co_positions() if None not in place]
    return code.co_name, code.co_firstlineno, code.co_freevars, min(places, default=None), max(places, default=None)


def _arguments(names: list[str]) -> ast.arguments:
    return ast.arguments([], [ast.arg(name) for name in names], None, [], [], None, [])


def _find_code(code: CodeType, name: str) -> CodeType | None:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            found = constant if constant.co_name == name else _find_code(constant, name)
            if found is not None:
                return found
    return None
