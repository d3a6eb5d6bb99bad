"""Finds the names of a program in its text: the scope that holds a name, and the places that bind it."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from backprobe.source.sites import parameters
from backprobe.source.syntax_nodes import parents

COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


class How(StrEnum):
    """The kind of statement that binds a name."""

    IMPORT = "import"
    FUNCTION = "function"
    CLASS = "class"
    ASSIGNED = "assigned"
    WALRUS = "walrus"
    LOOP = "loop"
    COMPREHENSION = "comprehension"
    WITH = "with"
    EXCEPT = "except"
    MATCH = "match"
    ARGUMENT = "argument"


@dataclass(frozen=True, eq=False, repr=False)
class SourceText:
    """The text of a file or of a notebook cell. ``order`` is the position of a cell among the cells that ran."""

    file: str
    lines: tuple[str, ...]
    tree: ast.Module
    order: int = 0


@dataclass(frozen=True, eq=False, repr=False)
class Binding:
    """One place that binds a name.

    ``node`` is the name itself (an alias or argument), or its definition. ``value`` is the expression whose whole value
    is bound to the name, if there is one. ``within`` is the scope whose code binds the name. For a ``global`` or
    ``nonlocal`` name, another scope holds the name.
    """

    how: How
    node: Any
    statement: Any
    text: SourceText
    within: SourceScope
    value: ast.expr | None = None

    @property
    def line(self) -> int:
        """The line of the name. For a definition with decorators, it is the line that contains the name."""
        return int(self.node.lineno)


@dataclass(eq=False, repr=False)
class SourceScope:
    """A module, class, function, lambda or comprehension: the names that it binds, and those that it declares global or
    nonlocal.
    """

    node: Any
    parent: SourceScope | None
    bindings: dict[str, list[Binding]] = field(default_factory=dict)
    stars: list[Binding] = field(default_factory=list)  # bindings by ``from module import *``
    # Local names that may have no value: they are deleted, or declared by an annotation without a value.
    emptied: set[str] = field(default_factory=set)
    elsewhere: dict[str, type[ast.Global | ast.Nonlocal]] = field(default_factory=dict)

    @property
    def module(self) -> SourceScope:
        return self if self.parent is None else self.parent.module

    @property
    def frame(self) -> SourceScope:
        """The scope whose frame stands for this scope. Comprehensions and generator expressions count as part of the
        surrounding code, even where Python gives them a frame of their own.
        """
        is_inner = isinstance(self.node, COMPREHENSIONS) and self.parent is not None
        return self.parent.frame if is_inner and self.parent is not None else self

    def holder(self, name: str) -> SourceScope | None:
        """Return the scope that holds a name which this scope reads; None if the name can only be a builtin."""
        at: SourceScope | None = self
        while at is not None and at.parent is not None:
            if at.elsewhere.get(name) is ast.Global:
                return self.module
            is_visible = at is self or not isinstance(at.node, ast.ClassDef)
            if at.has(name) and name not in at.elsewhere and is_visible:
                return at
            at = at.parent
        return at if at is not None and (at.has(name) or at.stars) else None

    def has(self, name: str) -> bool:
        """Does this scope bind or delete the name? It may declare the name global or nonlocal."""
        return name in self.bindings or name in self.emptied


class SourceNames:
    """The scopes of a module, found in its text. For a notebook, the texts are those of its cells, in the order in
    which they ran.
    """

    def __init__(self, texts: list[SourceText]) -> None:
        self.module = SourceScope(texts[-1].tree, None)
        self.parents: dict[ast.AST, ast.AST] = {}
        self.scopes: dict[ast.AST, SourceScope] = {}  # the keys are the nodes of names that are read or bound
        later: list[tuple[str, Binding]] = []
        for text in texts:
            reader = _Reader(text, self.module, self.scopes, later)
            reader.visit(text.tree)
            self.parents |= parents(text.tree)
        for name, binding in later:  # ``nonlocal`` names: all enclosing functions are known by now
            around = binding.within.parent
            holder = None if around is None else around.holder(name)
            if holder is not None:
                holder.bindings.setdefault(name, []).append(binding)


class _Reader(ast.NodeVisitor):
    # Reads the bindings in one text.
    def __init__(
        self, text: SourceText, scope: SourceScope, scopes: dict[ast.AST, SourceScope], later: list[tuple[str, Binding]]
    ) -> None:
        self.text, self.scope, self.scopes, self.later = text, scope, scopes, later
        self.how, self.statement, self.value = How.ASSIGNED, ast.AST(), None

    def _add(
        self,
        name: str,
        node: ast.AST,
        how: How,
        statement: ast.AST,
        value: ast.expr | None = None,
        scope: SourceScope | None = None,
    ) -> None:
        scope = scope or self.scope
        binding = Binding(how, node, statement, self.text, scope, value)
        declared = scope.elsewhere.get(name)
        if declared is ast.Nonlocal:
            self.later.append((name, binding))
        else:
            holder = scope.module if declared is ast.Global else scope
            holder.bindings.setdefault(name, []).append(binding)

    def _targets(self, target: ast.AST, how: How, statement: Any, value: Any = None) -> None:
        # Add the names that a target binds. The target is also visited, because it may read names.
        before = self.how, self.statement, self.value
        self.how, self.statement = how, statement
        self.value = value if isinstance(target, ast.Name) else None
        self.visit(target)
        self.how, self.statement, self.value = before

    def visit_Name(self, node: ast.Name) -> None:
        self.scopes[node] = self.scope
        if isinstance(node.ctx, ast.Store):
            self._add(node.id, node, self.how, self.statement, self.value)
        elif isinstance(node.ctx, ast.Del):
            self.scope.emptied.add(node.id)

    def visit_Assign(self, node: ast.Assign) -> None:
        self.visit(node.value)
        for target in node.targets:
            self._targets(target, How.ASSIGNED, node, node.value)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self.visit(node.value)
        self._targets(node.target, How.ASSIGNED, node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self.visit(node.annotation)
        if node.value is not None:
            self.visit(node.value)
            self._targets(node.target, How.ASSIGNED, node, node.value)
        elif isinstance(node.target, ast.Name) and node.simple:
            self.scope.emptied.add(node.target.id)
            self.scopes[node.target] = self.scope

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        self.visit(node.value)
        self.scopes[node.target] = self.scope
        self._add(node.target.id, node.target, How.WALRUS, node, node.value, self.scope.frame)

    def _all(self, *parts: ast.AST) -> None:
        for part in parts:
            self.visit(part)

    def visit_For(self, node: ast.For | ast.AsyncFor) -> None:
        self.visit(node.iter)
        self._targets(node.target, How.LOOP, node)
        self._all(*node.body, *node.orelse)

    visit_AsyncFor = visit_For

    def visit_With(self, node: ast.With | ast.AsyncWith) -> None:
        for item in node.items:
            self.visit(item.context_expr)
            if item.optional_vars is not None:
                self._targets(item.optional_vars, How.WITH, node)
        self._all(*node.body)

    visit_AsyncWith = visit_With

    def _caught(self, node: ast.ExceptHandler | ast.MatchAs | ast.MatchStar | ast.MatchMapping) -> None:
        name = node.rest if isinstance(node, ast.MatchMapping) else node.name
        if name is not None:
            self._add(name, node, How.EXCEPT if isinstance(node, ast.ExceptHandler) else How.MATCH, node)
        self.generic_visit(node)

    visit_ExceptHandler = visit_MatchAs = visit_MatchStar = visit_MatchMapping = _caught

    def visit_Import(self, node: ast.Import | ast.ImportFrom) -> None:
        for alias in node.names:
            name = alias.asname or (alias.name.split(".")[0] if isinstance(node, ast.Import) else alias.name)
            if name == "*":
                self.scope.stars.append(Binding(How.IMPORT, alias, node, self.text, self.scope))
            else:
                self._add(name, alias, How.IMPORT, node)

    visit_ImportFrom = visit_Import

    def visit_Global(self, node: ast.Global | ast.Nonlocal) -> None:
        if self.scope.parent is not None:
            self.scope.elsewhere |= dict.fromkeys(node.names, type(node))

    visit_Nonlocal = visit_Global

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self._add(node.name, node, How.FUNCTION, node)
        self._all(*node.decorator_list)
        self._function(node, node.body)

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self._function(node, [node.body])

    def _function(self, node: Any, body: list[Any]) -> None:
        annotated = [one.annotation for one in parameters(node.args)]
        evaluated = (*node.args.defaults, *node.args.kw_defaults, *annotated, getattr(node, "returns", None))
        self._all(*filter(None, evaluated))
        outside, self.scope = self.scope, SourceScope(node, self.scope)
        for argument in parameters(node.args):
            self._add(argument.arg, argument, How.ARGUMENT, node)
        self._all(*body)
        self.scope = outside

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._add(node.name, node, How.CLASS, node)
        self._all(*node.decorator_list, *node.bases, *node.keywords)
        outside, self.scope = self.scope, SourceScope(node, self.scope)
        self._all(*node.body)
        self.scope = outside

    def visit_ListComp(self, node: Any) -> None:
        first, *others = node.generators
        self.visit(first.iter)  # evaluated outside of the comprehension's scope
        outside, self.scope = self.scope, SourceScope(node, self.scope)
        for part in node.generators:
            self._targets(part.target, How.COMPREHENSION, node)
        inner = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        conditions = [condition for part in node.generators for condition in part.ifs]
        self._all(*(part.iter for part in others), *conditions, *inner)
        self.scope = outside

    visit_SetComp = visit_DictComp = visit_GeneratorExp = visit_ListComp
