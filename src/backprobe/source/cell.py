"""A notebook cell: which names its own code reads and assigns, and running it with every binding reported.

The cell runs at module level, in the notebook's own namespace. What its rewritten code talks to is a constant of the
code, so that no name of ours is ever in that namespace.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from types import CodeType
from typing import Any

from backprobe.errors import NoSource, NothingToDifferentiate, Unsupported
from backprobe.source.listener import ModuleListener
from backprobe.source.rewrite_module import rewrite_module
from backprobe.source.sites import Site

Definition = ast.FunctionDef | ast.AsyncFunctionDef
ABSENT = object()
OUTSIDE_FUNCTIONS = (ast.Await, ast.AsyncFor, ast.AsyncWith, ast.Yield, ast.YieldFrom)


@dataclass(frozen=True)
class Cell:
    """The code of a cell, how the notebook compiles it, and the namespace that it runs in.

    ``file`` is the name under which the notebook keeps the text for tracebacks. Raises NothingToDifferentiate for a
    cell without code, and Unsupported for one whose code cannot run here as a whole.
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
        finder = _Outside()
        with refusing_depth(self.file):
            finder.visit(self.tree)
        if finder.found is not None:
            _refuse_suspended(finder.found, self.lines)
        hidden = _cell_magic(self.tree)
        if hidden is not None:
            raise Unsupported(
                f"the cell is inside %%{hidden}, where its code cannot be seen", asked="%%probe",
                found=f"%%{hidden} below %%probe", next=f"%%{hidden} on the first line, and %%probe below it",
            )  # fmt: skip

    @property
    def __name__(self) -> str:
        """How messages call it."""
        return "the cell"

    @cached_property
    def _names(self) -> _Names:
        return _names(self.tree.body, inside=True)

    @property
    def read(self) -> tuple[str, ...]:
        """The names that the cell's own code reads, also those that it has assigned itself before."""
        return tuple(self._names.read)

    @property
    def assigned(self) -> tuple[str, ...]:
        """The names that the cell's own code binds, in the order of their last bindings in the text."""
        return tuple(self._names.stored)

    @property
    def frameworks(self) -> tuple[str, ...]:
        """The packages that the cell itself imports."""
        return tuple(self._names.imported)

    @property
    def read_first(self) -> tuple[str, ...]:
        """The names that the cell certainly reads before anything can have assigned them: a call might."""
        found: dict[str, None] = {}
        assigned: set[str] = set()
        for statement in self.tree.body:
            if any(isinstance(part, ast.Call | ast.ImportFrom) for part in ast.walk(statement)):
                break
            found |= dict.fromkeys(name for name in header_reads(statement) if name not in assigned)
            assigned |= _names([statement], inside=True).stored.keys()
        return tuple(found)

    def value(self, name: str, default: Any = None) -> Any:
        """What a name holds now."""
        return self.locals.get(name, self.globals.get(name, default))

    def calls(self, method: str) -> int | None:
        """The line on which the cell first calls a method of this name."""
        lines = [
            node.lineno for node in ast.walk(self.tree)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == method
        ]  # fmt: skip
        return min(lines, default=None)

    def reporting(self, announced: Collection[str], *, operations: bool) -> ReportingCell:
        """The cell rewritten to report; it announces each reading of the ``announced`` names."""
        mark = f"@scope {os.urandom(16).hex()}"  # equal to no text of the cell's
        rewritten = rewrite_module(
            self.tree, self.lines, mark, operations=operations, announced=announced, reads=header_reads
        )
        assert isinstance(rewritten.node, ast.Module)
        return ReportingCell(self, self.compiled(rewritten.node, self.file, "exec"), mark, rewritten.sites)


@dataclass(frozen=True)
class ReportingCell:
    """The compiled reporting version of a cell, with a mark in the place of the scope it reports to."""

    cell: Cell
    code: CodeType
    mark: str
    sites: tuple[Site, ...]

    def run(self, listener: ModuleListener) -> None:
        exec(_placed(self.code, self.mark, listener), self.cell.globals, self.cell.locals)


@contextmanager
def refusing_depth(file: str) -> Iterator[None]:
    """Syntax trees are walked recursively, and Python limits how deep. Raises NoSource."""
    try:
        yield
    except RecursionError:
        raise NoSource(
            "an expression in the cell is nested too deeply to be rewritten", asked="%%probe", found=file,
            why="syntax trees are walked recursively, and Python limits how deep", next="give a part of it a name",
        ) from None  # fmt: skip


def header_reads(statement: ast.stmt) -> tuple[str, ...]:
    """The names that a statement reads by itself, without the statements inside it."""
    return tuple(_names([statement], inside=False).read)


def _placed(code: CodeType, mark: str, scope: Any) -> CodeType:
    """The same code with the scope in the place of its mark, in comprehensions too."""
    constants = tuple(
        _placed(constant, mark, scope) if isinstance(constant, CodeType)
        else scope if isinstance(constant, str) and constant == mark else constant
        for constant in code.co_consts
    )  # fmt: skip
    changed = any(new is not old for new, old in zip(constants, code.co_consts, strict=True))
    return code.replace(co_consts=constants) if changed else code


def _names(statements: Iterable[ast.AST], *, inside: bool) -> _Names:
    names = _Names(inside)
    for statement in statements:
        names.visit(statement)
    return names


class _Own(ast.NodeVisitor):
    """Visits what a module's own code evaluates: of functions, their decorators and defaults alone."""

    def _definition(self, node: Definition | ast.Lambda) -> None:
        for part in (*getattr(node, "decorator_list", ()), *node.args.defaults, *filter(None, node.args.kw_defaults)):
            self.visit(part)

    visit_FunctionDef = visit_AsyncFunctionDef = visit_Lambda = _definition


class _Outside(_Own):
    """Finds what Python allows inside a function only, or what only an event loop can run."""

    found: ast.expr | ast.stmt | None = None

    def visit(self, node: ast.AST) -> None:
        if isinstance(node, OUTSIDE_FUNCTIONS):
            self.found = self.found or node
        elif isinstance(node, ast.comprehension) and node.is_async:
            self.found = self.found or node.iter
        super().visit(node)


class _Names(_Own):
    """The names that code reads before it assigns them itself, and those it assigns, in the order of evaluation."""

    def __init__(self, inside: bool) -> None:
        self.inside = inside
        self.read: dict[str, None] = {}
        self.stored: dict[str, None] = {}
        self.imported: dict[str, None] = {}
        self.within: list[set[str]] = []  # the variables of the comprehensions around

    def generic_visit(self, node: ast.AST) -> None:
        for child in ast.iter_child_nodes(node):
            if self.inside or not isinstance(child, ast.stmt):
                self.visit(child)

    def _store(self, name: str | None) -> None:
        if name is not None:
            self.stored.pop(name, None)
            self.stored[name] = None

    def _read(self, name: str) -> None:
        if self.inside or name not in self.stored:
            self.read[name] = None

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load) and not any(node.id in own for own in self.within):
            self._read(node.id)
        elif isinstance(node.ctx, ast.Store):
            self._store(node.id)

    def _value_first(self, node: ast.Assign | ast.AnnAssign | ast.NamedExpr) -> None:
        if node.value is not None:
            for part in (node.value, *(node.targets if isinstance(node, ast.Assign) else [node.target])):
                self.visit(part)

    visit_Assign = visit_AnnAssign = visit_NamedExpr = _value_first

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if isinstance(node.target, ast.Name):
            self._read(node.target.id)
        self.visit(node.value)
        self.visit(node.target)

    def visit_For(self, node: ast.For) -> None:
        self.visit(node.iter)
        self.visit(node.target)
        if self.inside:
            for statement in (*node.body, *node.orelse):
                self.visit(statement)

    def _comprehension(self, node: Any) -> None:
        self.visit(node.generators[0].iter)  # evaluated outside, where its own variables are not yet
        own = {name.id for part in node.generators for name in ast.walk(part.target) if isinstance(name, ast.Name)}
        self.within.append(own)
        for at, part in enumerate(node.generators):
            for inner in (*([part.iter] if at else []), *part.ifs):
                self.visit(inner)
        for element in [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]:
            self.visit(element)
        self.within.pop()

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _comprehension

    def _definition(self, node: Definition | ast.Lambda) -> None:
        super()._definition(node)
        self._store(getattr(node, "name", None))

    visit_FunctionDef = visit_AsyncFunctionDef = visit_Lambda = _definition

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for part in (*node.decorator_list, *node.bases, *node.keywords):
            self.visit(part)
        self._store(node.name)

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self.imported[alias.name.split(".")[0]] = None
            self._store(alias.asname or alias.name.split(".")[0])

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        self.imported[(node.module or "").split(".")[0]] = None
        for alias in node.names:
            if alias.name != "*":
                self._store(alias.asname or alias.name)

    def _pattern(self, node: ast.MatchAs | ast.MatchStar | ast.MatchMapping) -> None:
        self.generic_visit(node)
        self._store(node.rest if isinstance(node, ast.MatchMapping) else node.name)

    visit_MatchAs = visit_MatchStar = visit_MatchMapping = _pattern


def _refuse_suspended(node: ast.expr | ast.stmt, lines: Sequence[str]) -> None:
    is_async = not isinstance(node, ast.Yield | ast.YieldFrom)
    raise Unsupported(
        "a cell with await at its top level cannot be probed" if is_async else "yield stands outside a function",
        asked="%%probe",
        found=f"line {node.lineno}: {lines[node.lineno - 1].strip()}",
        why="a cell magic runs to its end at once, beside the event loop" if is_async else "Python does not allow it",
        next="await in a cell of its own, and probe what follows" if is_async else "yield inside a function",
    )


def _cell_magic(tree: ast.Module) -> str | None:
    """The cell magic that a cell is nothing but a call of, as IPython writes it."""
    match tree.body:
        case [ast.Expr(ast.Call(ast.Attribute(attr="run_cell_magic"), [ast.Constant(name), *_]))]:
            return str(name)
    return None
