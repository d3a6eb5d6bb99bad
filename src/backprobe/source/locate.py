"""Finding the source text that a code object was compiled from."""

from __future__ import annotations
import __future__

import ast
import inspect
import linecache
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache, reduce
from importlib.machinery import SourceFileLoader
from types import CodeType
from typing import Any

from backprobe.errors import NoSource, StaleSource

FUTURE_FLAGS = reduce(int.__or__, (getattr(__future__, name).compiler_flag for name in __future__.all_feature_names))

EXECUTED = "<string>"
"""The file of code made by exec; from Python 3.13 on, ``linecache`` has the text of ``python -c`` under that name."""

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
LEAVES = (ast.Name, ast.Constant, ast.expr_context, ast.operator, ast.alias)
"""Nodes without a function inside: most of a syntax tree."""


@dataclass(frozen=True)
class Definition:
    """A function's node in its file's syntax tree, the classes around it (outermost first), and facts of the file."""

    node: FunctionNode
    classes: tuple[str, ...]
    lines: tuple[str, ...]
    imports: tuple[ast.stmt, ...]  # that it was compiled together with: what they name compiles differently


@dataclass(frozen=True)
class Parsed:
    lines: tuple[str, ...]
    imports: tuple[ast.stmt, ...]
    functions: dict[tuple[str, int], list[tuple[FunctionNode, tuple[str, ...]]]]


def locate(code: CodeType) -> Definition:
    """Find the definition of a code object. Raises NoSource or StaleSource."""
    parsed = _parse(code)
    candidates = [
        (node, classes)
        for node, classes in parsed.functions.get((code.co_name, code.co_firstlineno), [])
        if not isinstance(node, ast.Lambda) or _covers(node, code)
    ]
    imports = _compiled_with(code, parsed)
    if not candidates or imports is None:
        raise _stale(code)
    node, classes = min(candidates, key=lambda found: _span(found[0]))  # the innermost of lambdas within lambdas
    return Definition(node, classes, parsed.lines, imports)


def _stale(code: CodeType) -> StaleSource:
    return StaleSource(
        f"the source of {code.co_qualname} has changed since it was imported",
        asked=f"the names in {code.co_qualname}",
        found=f"{code.co_filename}:{code.co_firstlineno} no longer compiles to the function that is running",
        why="names are read from the source text, and a changed text would give wrong names",
        next="restart Python, or reload the module",
    )


def is_class(code: CodeType) -> bool:
    """Is it the code of a class's body?"""
    return not code.co_flags & inspect.CO_OPTIMIZED and not is_module(code)


def locate_class(code: CodeType) -> tuple[ast.ClassDef, tuple[str, ...]]:
    """The definition of the class whose body was compiled to a code object. Raises NoSource or StaleSource."""
    parsed = _parse(code)
    for node in ast.walk(ast.parse("".join(parsed.lines))):
        if isinstance(node, ast.ClassDef) and node.name == code.co_name:
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            if first == code.co_firstlineno and _compiled_with(code, parsed) is not None:
                return node, parsed.lines
    raise _stale(code)


def is_module(code: CodeType) -> bool:
    """Is it the code of a module, or of a statement in a notebook's cell?"""
    return code.co_name == "<module>" or code.co_name.startswith("<cell line:")


def locate_module(code: CodeType) -> tuple[ast.Module, tuple[str, ...]]:
    """The syntax tree and lines that a module's code was compiled from. Raises NoSource or StaleSource."""
    parsed = _parse(code)
    tree = ast.parse("".join(parsed.lines))
    own = code.replace(co_name="<module>", co_qualname="<module>")
    whole: list[ast.Module | ast.Interactive] = [tree, ast.Interactive(tree.body)]  # the latter as at a prompt
    apart = [ast.Module([statement], []) for statement in tree.body]
    for module in (*whole, *apart):
        mode = "exec" if isinstance(module, ast.Module) else "single"
        flags = code.co_flags & FUTURE_FLAGS
        if compile(module, code.co_filename, mode, flags=flags, dont_inherit=True) == own:
            return tree, parsed.lines
    raise StaleSource(
        f"the source of {code.co_filename} has changed since it was run", asked="the names in it",
        found="a text that does not compile to the code that is running",
        why="names are read from the source text, and a changed text would give wrong names", next="run it again",
    )  # fmt: skip


def _parse(code: CodeType) -> Parsed:
    file = code.co_filename
    if not file.startswith("<"):
        linecache.checkcache(file)
    lines = tuple(linecache.getlines(file)) if file != EXECUTED else ()
    if not lines:
        raise NoSource(
            f"there is no source text for {code.co_qualname}",
            asked=f"the names in {code.co_qualname}",
            found=f"its file is {file!r}, which cannot be read",
            why="names are read from the source text; code run by exec or typed at a prompt has none",
            next="put the function into a file and import it from there",
        )
    return _parse_lines(file, lines)


@lru_cache(128)
def _parse_lines(file: str, lines: tuple[str, ...]) -> Parsed:
    try:
        tree = ast.parse("".join(lines))
    except SyntaxError as error:
        raise NoSource(
            f"{file} does not parse as Python",
            found=str(error),
            why="names are read from the source text; a notebook cell with magics in it has none",
            next="put the function into a cell or file of plain Python",
        ) from error
    functions: dict[tuple[str, int], list[tuple[FunctionNode, tuple[str, ...]]]] = {}
    for node, classes in _functions(tree):
        first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", []))])
        functions.setdefault((getattr(node, "name", "<lambda>"), first), []).append((node, classes))
    return Parsed(lines, tuple(_imports(tree)), functions)


def _functions(tree: ast.Module) -> Iterator[tuple[FunctionNode, tuple[str, ...]]]:
    """Every function of a file, with the classes around it."""
    pending: list[tuple[ast.AST, tuple[str, ...]]] = [(tree, ())]
    while pending:
        node, classes = pending.pop()
        if isinstance(node, FUNCTIONS):
            yield node, classes
        elif isinstance(node, ast.ClassDef):
            classes = (*classes, node.name)
        pending += [(child, classes) for child in ast.iter_child_nodes(node) if not isinstance(child, LEAVES)]


def _imports(node: ast.AST) -> Iterator[ast.stmt]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import) or (isinstance(child, ast.ImportFrom) and child.module != "__future__"):
            yield child
        elif not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.expr):
            yield from _imports(child)


def _span(node: FunctionNode) -> tuple[int, int]:
    lines = (node.end_lineno or 0) - node.lineno
    return lines, (node.end_col_offset or 0) - node.col_offset if not lines else 0


def _covers(node: ast.Lambda, code: CodeType) -> bool:
    """Lambdas may share a line and stand in each other: are the instructions of ``code`` within this one's columns,
    are its arguments this one's, and has it as many lambdas inside?"""
    arguments = [a.arg for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
    if arguments != list(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]):
        return False
    if sum(isinstance(part, ast.Lambda) for part in ast.walk(node)) != _count_lambdas(code):
        return False
    start, end = (node.lineno, node.col_offset), (node.end_lineno or 0, node.end_col_offset or 0)
    places = [p for p in code.co_positions() if None not in p and (p[2], p[3]) != (0, 0)]
    return all(start <= (p[0] or 0, p[2] or 0) and (p[1] or 0, p[3] or 0) <= end for p in places)


def _count_lambdas(code: CodeType) -> int:
    """How many lambdas a code object is or holds."""
    inside = sum(_count_lambdas(constant) for constant in code.co_consts if isinstance(constant, CodeType))
    return inside + (code.co_name == "<lambda>")


def _compiled_with(code: CodeType, parsed: Parsed) -> tuple[ast.stmt, ...] | None:
    """The imports that a code object was compiled together with; None where the text no longer compiles to it.

    A module is compiled whole. A notebook compiles each statement of a cell alone, so that it knows of no import.
    """
    place, flags = (code.co_name, code.co_firstlineno), code.co_flags & FUTURE_FLAGS
    whole = _compile_all(parsed.lines, code.co_filename, flags, False).get(place, ())
    # pytest compiles assert statements to something else; then the outline has to do
    rewritten_by_pytest = any("@py" in name for name in code.co_names + code.co_varnames)
    if code in whole or (rewritten_by_pytest and _outline(code) in map(_outline, whole)):
        return parsed.imports
    return () if code in _compile_all(parsed.lines, code.co_filename, flags, True).get(place, ()) else None


def _outline(code: CodeType) -> tuple[Any, ...]:
    own = {name for name in code.co_varnames if not name.startswith("@")}
    return own, code.co_argcount, code.co_freevars


class _ImportedCode(SourceFileLoader):
    """The code of a file as an import makes it: from its ``.pyc`` where that is up to date. None is written."""

    def set_data(self, path: str, data: Any, *, _mode: int = 0) -> None:
        pass


def _as_imported(file: str) -> CodeType | None:
    """The code that an import of this file gives; None for what is no file of its own, such as a notebook's cell.

    To unmarshal a large file takes a hundredth of the time that compiling it does.
    """
    return _ImportedCode("", file).get_code("") if os.path.isfile(file) else None


@lru_cache(128)
def _compile_all(
    lines: tuple[str, ...], file: str, flags: int, apart: bool
) -> dict[tuple[str, int], tuple[CodeType, ...]]:
    """Every code object in a file, by name and first line; with ``apart``, each statement is compiled alone."""
    found: dict[tuple[str, int], tuple[CodeType, ...]] = {}
    modules = [ast.Module([statement], []) for statement in ast.parse("".join(lines)).body] if apart else []
    pending = [compile(module, file, "exec", flags=flags, dont_inherit=True) for module in modules]
    if not apart:
        pending.append(_as_imported(file) or compile("".join(lines), file, "exec", flags=flags, dont_inherit=True))
    while pending:
        code = pending.pop()
        key = (code.co_name, code.co_firstlineno)
        found[key] = (*found.get(key, ()), code)
        pending += [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    return found
