"""Compiles a notebook cell as the notebook does, and runs it with every binding reported.

The cell runs at module level, in the notebook's own namespace. Its rewritten code reports to an object that is a
constant of the code, so no name of backprobe appears in that namespace.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property, partial
from types import CodeType
from typing import Any

from backprobe.errors import NothingToDifferentiate, Unsupported
from backprobe.source.listener import ModuleListener
from backprobe.source.module_names import ModuleNames, find_suspended, header_reads
from backprobe.source.rewrite_module import rewrite_module
from backprobe.source.sites import Origin, Site, lines_of
from backprobe.source.syntax_nodes import refusing_deep_nesting

ABSENT = object()


@dataclass(frozen=True)
class Cell:
    """A notebook cell: its code, the function with which the notebook compiles it, and the namespace in which it runs.

    ``file`` is the name under which the notebook keeps the text for tracebacks. Raises NothingToDifferentiate for a
    cell without code, Unsupported for a cell that cannot be run as a whole, and NoSource for too deep nesting.
    """

    tree: ast.Module
    lines: Sequence[str]
    file: str
    compiled: Callable[[ast.Module, str, str], CodeType]
    globals: dict[str, Any]
    locals: dict[str, Any]

    def __post_init__(self) -> None:
        if not self.tree.body:
            raise NothingToDifferentiate(
                "the cell has no code", asked="%%probe", next="code below %%probe that computes a scalar"
            )
        with refusing_depth(self.file):
            suspended = find_suspended(self.tree)
        if suspended is not None:
            _refuse_suspended(suspended, self.lines)
        hidden = _cell_magic(self.tree)
        if hidden is not None:
            raise Unsupported(
                f"the cell is inside %%{hidden}, where its code cannot be seen",
                asked="%%probe",
                found=f"%%{hidden} below %%probe",
                next=f"%%{hidden} on the first line, and %%probe below it",
            )

    @property
    def __name__(self) -> str:
        """The name of the cell for messages."""
        return "the cell"

    @cached_property
    def names(self) -> ModuleNames:
        """The names that the cell's own code binds, imports and reads. A name that it assigns first and then reads also
        counts as read.
        """
        return ModuleNames(self.tree.body)

    @property
    def read_first(self) -> tuple[str, ...]:
        """The names that the cell's first statements read before they assign them. A statement with a call or a
        ``from`` import ends the search, because it may assign names.
        """
        found: dict[str, None] = {}
        assigned: set[str] = set()
        for statement in self.tree.body:
            if any(isinstance(part, ast.Call | ast.ImportFrom) for part in ast.walk(statement)):
                break
            found |= dict.fromkeys(name for name in header_reads(statement) if name not in assigned)
            assigned |= ModuleNames([statement]).stored.keys()
        return tuple(found)

    def value(self, name: str, default: Any = None) -> Any:
        """Return the current value of a name, or the default."""
        return self.locals.get(name, self.globals.get(name, default))

    def calls(self, method: str) -> int | None:
        """Return the first line of the cell with a call of a method of this name; None if there is no such call."""
        lines = [
            node.lineno
            for node in ast.walk(self.tree)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == method
        ]
        return min(lines, default=None)

    def mentions(self, names: Collection[str]) -> bool:
        """Does the cell's code contain one of these names, as a variable or an attribute?"""
        parts = (getattr(part, "attr", getattr(part, "id", "")) for part in ast.walk(self.tree)) if names else ()
        return any(part in names for part in parts)

    def reporting(
        self, announced: Collection[str], *, operations: bool
    ) -> tuple[Callable[[ModuleListener], None], tuple[Site, ...]]:
        """Return a function that runs the rewritten cell, and the cell's sites. The code reports before it reads
        ``announced`` names.
        """
        mark = f"@scope {os.urandom(16).hex()}"  # a text that cannot occur in the cell
        tree, sites = rewrite_module(self.tree, self.lines, mark, operations=operations, announced=announced)
        return partial(self._run, self.compiled(tree, self.file, "exec"), mark), sites

    def parts(self) -> tuple[CodeType, CodeType | None, Site | None]:
        """Return the code of the cell without its last expression, the code of that expression, and the site of the
        expression's value. The last two are None if the cell does not end with an expression.
        """
        *body, end = self.tree.body
        if not isinstance(end, ast.Expr):
            return self.compiled(self.tree, self.file, "exec"), None, None
        text, *below = lines_of(end, self.lines)
        site = Site("return", end.lineno, text, Origin.of(end.value), tuple(below))
        before = ast.Module(body, [])
        value: Any = ast.Expression(end.value)
        return self.compiled(before, self.file, "exec"), self.compiled(value, self.file, "eval"), site

    def _run(self, code: CodeType, mark: str, listener: ModuleListener) -> None:
        exec(_placed(code, mark, listener), self.globals, self.locals)


def refusing_depth(file: str) -> AbstractContextManager[None]:
    """Inside this context, a cell with expressions nested too deeply to be walked raises NoSource."""
    return refusing_deep_nesting("the cell", asked="%%probe", found=file)


def _placed(code: CodeType, mark: str, scope: Any) -> CodeType:
    # Return the same code, in which the scope object replaces its placeholder text, also inside comprehensions.
    constants = tuple(
        _placed(constant, mark, scope)
        if isinstance(constant, CodeType)
        else scope
        if isinstance(constant, str) and constant == mark
        else constant
        for constant in code.co_consts
    )
    changed = any(new is not old for new, old in zip(constants, code.co_consts, strict=True))
    return code.replace(co_consts=constants) if changed else code


def _refuse_suspended(node: ast.expr | ast.stmt, lines: Sequence[str]) -> None:
    is_async = not isinstance(node, ast.Yield | ast.YieldFrom)
    raise Unsupported(
        "a cell with await at its top level cannot be probed"
        if is_async
        else "the cell has a yield outside any function",
        asked="%%probe",
        found=f"line {node.lineno}: {lines[node.lineno - 1].strip()}",
        why="a cell magic runs to its end at once, outside the event loop" if is_async else "Python does not allow it",
        next="await in a cell of its own, and probe the code after it in another"
        if is_async
        else "yield inside a function",
    )


def _cell_magic(tree: ast.Module) -> str | None:
    # Return the name of the cell magic, which IPython has translated to a call, if the cell consists only of this call;
    # otherwise None.
    match tree.body:
        case [ast.Expr(ast.Call(ast.Attribute(attr="run_cell_magic"), [ast.Constant(name), *_]))]:
            return str(name)
    return None
