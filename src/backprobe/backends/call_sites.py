"""Calls in the user's code: the statement that an instruction belongs to, and what switched gradients off around it."""

from __future__ import annotations

import ast
import linecache
import warnings
from collections.abc import Iterator, Sequence
from functools import lru_cache
from types import CodeType
from typing import NamedTuple

from backprobe.record.source import Source
from backprobe.record.training import ModuleCall

Instruction = tuple[CodeType, int]
"""Code, and the offset of the instruction that runs in it."""
Switch = ast.With | ast.AsyncWith | ast.FunctionDef | ast.AsyncFunctionDef
SWITCHES = ("no_grad", "inference_mode", "set_grad_enabled")


class Site(NamedTuple):
    """A statement, the node of it that an instruction belongs to, and what lies around that."""

    statement: ast.stmt
    node: ast.AST
    above: dict[ast.AST, ast.AST]


def call_site(instruction: Instruction) -> tuple[Source, str] | None:
    """The statement around an instruction, and the text of the call in it; None without its source."""
    site = site_at(*instruction)
    if site is None:
        return None
    return source_of(instruction[0].co_filename, site.statement), ast.unparse(site.node)


def mentions(code: CodeType, attribute: str) -> Iterator[ModuleCall]:
    """The statements of a method in which an attribute of its object is mentioned."""
    known = _parsed("".join(linecache.getlines(code.co_filename)))
    own = code.co_varnames[0] if code.co_argcount else ""
    first = code.co_firstlineno
    tree, above = known if known is not None else (ast.Module([], []), {})
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    nodes = (
        node for function in functions if first in range(_first_line(function), function.body[0].lineno + 1)
        for node in ast.walk(function) if isinstance(node, ast.Attribute)
    )  # fmt: skip
    for node in nodes:
        statement = _statement(node, above) if ast.unparse(node) == f"{own}.{attribute}" else None
        if statement is not None:
            yield ModuleCall(source_of(code.co_filename, statement), ast.unparse(node))


def _first_line(function: ast.FunctionDef) -> int:
    """That of the first decorator, if it has one, as code objects have it."""
    return min([function.lineno, *(one.lineno for one in function.decorator_list)])


def _statement(node: ast.AST, above: dict[ast.AST, ast.AST]) -> ast.stmt | None:
    while node in above and not isinstance(node, ast.stmt):
        node = above[node]
    return node if isinstance(node, ast.stmt) else None


def switch(instructions: Sequence[Instruction]) -> Source | None:
    """The nearest line around one of these, the innermost first, that may have switched gradients off."""
    for code, at in instructions:
        site = site_at(code, at)
        for node in _around(site) if site is not None else ():
            named = node.items if isinstance(node, ast.With | ast.AsyncWith) else node.decorator_list
            for one in named:
                if any(word in ast.unparse(one) for word in SWITCHES):
                    line = one.context_expr.lineno if isinstance(one, ast.withitem) else one.lineno
                    return Source(code.co_filename, line, linecache.getline(code.co_filename, line).strip())
    return None


def _around(site: Site) -> Iterator[Switch]:
    """The ``with`` statements around a statement, and the function that they stand in."""
    node: ast.AST = site.statement
    while node in site.above:
        node = site.above[node]
        if isinstance(node, Switch):
            yield node
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            return


@lru_cache(1024)
def site_at(code: CodeType, at: int, kind: type[ast.AST] = ast.Call) -> Site | None:
    """Where an instruction belongs to: the outermost node of this kind that is exactly what it computes."""
    lines = tuple(linecache.getlines(code.co_filename))
    positions = list(code.co_positions())
    known = _parsed("".join(lines))
    if known is None or not 0 <= at // 2 < len(positions) or None in positions[at // 2]:
        return None
    tree, above = known
    line, end, column, end_column = positions[at // 2]
    for node in ast.walk(tree):
        spans = getattr(node, "lineno", 0), getattr(node, "end_lineno", 0)
        columns = getattr(node, "col_offset", 0), getattr(node, "end_col_offset", 0)
        if isinstance(node, kind) and (spans, columns) == ((line, end), (column, end_column)):
            statement = _statement(node, above)
            return None if statement is None else Site(statement, node, above)
    return None


def assigned_once(site: Site, name: str) -> ast.expr | None:
    """What a name is given in the function around a site, where only one assignment there gives it anything."""
    around: ast.AST = site.statement
    while around in site.above and not isinstance(around, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        around = site.above[around]
    stored = [node for node in ast.walk(around) if isinstance(node, ast.Name | ast.arg)
              and name == (node.arg if isinstance(node, ast.arg) else node.id if _is_stored(node) else "")]  # fmt: skip
    statement = site.above.get(stored[0]) if len(stored) == 1 else None
    return statement.value if isinstance(statement, ast.Assign) else None


def _is_stored(node: ast.Name) -> bool:
    return not isinstance(node.ctx, ast.Load)


@lru_cache(16)
def _parsed(text: str) -> tuple[ast.AST, dict[ast.AST, ast.AST]] | None:
    try:
        with warnings.catch_warnings():  # of what the text says, Python has warned when it was compiled
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return tree, {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}


def source_of(file: str, statement: ast.stmt) -> Source:
    """A statement, or the head of a compound one, with its lines."""
    body = getattr(statement, "body", None)
    last = body[0].lineno - 1 if body else statement.end_lineno or statement.lineno
    lines = range(statement.lineno, max(last, statement.lineno) + 1)
    texts = [linecache.getline(file, line).rstrip("\n") for line in lines]
    return Source(file, statement.lineno, texts[0].strip(), below=tuple(texts[1:]))
