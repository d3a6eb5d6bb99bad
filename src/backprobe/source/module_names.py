"""The names that a module's own code, as that of a notebook cell, reads, binds and imports."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import Any

Definition = ast.FunctionDef | ast.AsyncFunctionDef
SUSPENDING = (ast.Await, ast.AsyncFor, ast.AsyncWith, ast.Yield, ast.YieldFrom)


def names_of(statements: Iterable[ast.AST], *, inside: bool = True) -> ModuleNames:
    """The names of some statements; without ``inside``, of each by itself, without the statements inside it."""
    names = ModuleNames(inside)
    for statement in statements:
        names.visit(statement)
    return names


def header_reads(statement: ast.stmt) -> tuple[str, ...]:
    """The names that a statement reads by itself, without the statements inside it."""
    return tuple(names_of([statement], inside=False).read)


def find_suspended(tree: ast.Module) -> ast.expr | ast.stmt | None:
    """What Python allows inside a function only, or what only an event loop can run, in a module's own code."""
    finder = _Suspended()
    finder.visit(tree)
    return finder.found


class _Own(ast.NodeVisitor):
    """Visits what a module's own code evaluates: of functions, their decorators and defaults alone."""

    def _definition(self, node: Definition | ast.Lambda) -> None:
        for part in (*getattr(node, "decorator_list", ()), *node.args.defaults, *filter(None, node.args.kw_defaults)):
            self.visit(part)

    visit_FunctionDef = visit_AsyncFunctionDef = visit_Lambda = _definition


class _Suspended(_Own):
    """Finds what Python allows inside a function only, or what only an event loop can run."""

    found: ast.expr | ast.stmt | None = None

    def visit(self, node: ast.AST) -> None:
        if isinstance(node, SUSPENDING):
            self.found = self.found or node
        elif isinstance(node, ast.comprehension) and node.is_async:
            self.found = self.found or node.iter
        super().visit(node)


class ModuleNames(_Own):
    """The names that code reads before it assigns them itself, and those it assigns, in the order of evaluation.

    With ``inside`` those that it reads at any time, and what the statements inside a statement do.
    """

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
