"""Puts hooks around the statements of a module. The hooks receive the values that a statement reads and computes.

``x = f(u) + 1`` becomes ``x = made(begin(3), seen(seen(f)(seen(u))) + 1)``. The three hooks are functions in variables
of the module, and 3 is the number of the statement. Statements are assignments, returns and expressions, if they
compute a value without ``yield`` and ``await``. The body of a lambda counts as a statement.
"""

from __future__ import annotations

import ast
import builtins
import copy
from collections.abc import Sequence
from dataclasses import dataclass
from types import CodeType
from typing import Any

BEGIN, SEEN, MADE = "__backprobe_begin__", "__backprobe_seen__", "__backprobe_made__"
NOT_SEEN = frozenset(vars(builtins)) | {BEGIN, SEEN, MADE}
SUSPENDING = (ast.Yield, ast.YieldFrom, ast.Await)


@dataclass(frozen=True)
class Statement:
    """A statement: its place in a file, the variables in its targets, and facts about its kind."""

    file: str
    first: int
    last: int
    names: tuple[str, ...]
    is_return: bool
    is_call: bool = False
    """Is the statement a call whose result is not used?"""
    is_augmented: bool = False
    """Is it an assignment such as ``total += loss``, which binds another value than it computes?"""


def with_hooks(source: str | bytes, file: str, statements: list[Statement]) -> CodeType:
    """Return the compiled code of a module with hooks. Its statements are added to ``statements``. Raises
    SyntaxError.
    """
    tree: ast.Module = _Hooks(file, statements).visit(ast.parse(source))
    return compile(ast.fix_missing_locations(tree), file, "exec", dont_inherit=True)


def at_line(statements: Sequence[Statement], file: str, line: int) -> list[int]:
    """Return the numbers of the innermost statements at a line."""
    held = [
        (one.last - one.first, at)
        for at, one in enumerate(statements)
        if one.file == file and one.first <= line <= one.last
    ]
    return [at for length, at in held if length == min(held)[0]]


class _Hooks(ast.NodeTransformer):
    def __init__(self, file: str, statements: list[Statement]) -> None:
        self.file, self.statements = file, statements

    def visit_Assign(self, node: ast.Assign) -> Any:
        return self._statement(node, node.targets)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> Any:
        return self._statement(node, [node.target])

    visit_AugAssign: Any = visit_AnnAssign

    def visit_Return(self, node: ast.Return) -> Any:
        return self._statement(node, ())

    visit_Expr: Any = visit_Return

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        node.body = self._hooked(node.body, (), is_return=True)
        return node

    def _statement(self, node: Any, targets: Any) -> Any:
        value = node.value
        if value is not None and not isinstance(value, ast.Constant):
            node.value = self._hooked(
                value,
                targets,
                is_return=isinstance(node, ast.Return),
                is_call=isinstance(node, ast.Expr) and isinstance(value, ast.Call),
                is_augmented=isinstance(node, ast.AugAssign),
            )
        return node

    def _hooked(self, value: ast.expr, targets: Any, *, is_return: bool, **kinds: bool) -> ast.expr:
        if any(isinstance(one, SUSPENDING) for one in ast.walk(value)):
            return value
        names = tuple(one.id for target in targets for one in ast.walk(target) if isinstance(one, ast.Name))
        number = len(self.statements)
        last = value.end_lineno or value.lineno
        self.statements.append(Statement(self.file, value.lineno, last, names, is_return, **kinds))
        owners = [copy.deepcopy(one.value) for one in targets if isinstance(one, ast.Attribute | ast.Subscript)]
        begin = _call(BEGIN, value, ast.Constant(number))
        return _call(MADE, value, begin, _Reads(self, value).visit(value), *[one for one in owners if _is_plain(one)])


class _Reads(ast.NodeTransformer):
    # Puts hooks around the values that an expression reads, except builtins, and around the results of calls inside it.
    def __init__(self, hooks: _Hooks, whole: ast.expr) -> None:
        self.hooks, self.whole = hooks, whole

    def visit_Call(self, node: ast.Call) -> ast.AST:
        is_whole = node is self.whole
        made: Any = self.generic_visit(node)
        return made if is_whole else _call(SEEN, node, made, ast.Constant(""), ast.Constant(True))

    def visit_Name(self, node: ast.Name) -> ast.expr:
        is_seen = isinstance(node.ctx, ast.Load) and node.id not in NOT_SEEN
        return _call(SEEN, node, node, ast.Constant(node.id)) if is_seen else node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        if not _is_plain(node):
            return self.generic_visit(node)
        node.value = _within(node.value)
        return _call(SEEN, node, node)

    visit_Subscript: Any = visit_Attribute

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        return self.hooks.visit_Lambda(node)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        return node


def _is_plain(node: ast.AST) -> bool:
    # Is the expression a variable, or a chain of attributes and items of a variable? The keys must be constants or
    # variables.
    if not isinstance(getattr(node, "ctx", None), ast.Load):
        return False
    while isinstance(node, ast.Attribute | ast.Subscript):
        if isinstance(node, ast.Subscript) and not isinstance(node.slice, ast.Constant | ast.Name):
            return False
        node = node.value
    return isinstance(node, ast.Name) and node.id not in NOT_SEEN


def _within(node: Any) -> ast.expr:
    # Put a hook around each part of a chain such as ``w.data[0]``: around ``w``, ``w.data`` and ``w.data[0]``.
    if not isinstance(node, ast.Name):
        node.value = _within(node.value)
    return _call(SEEN, node, node, ast.Constant(""), ast.Constant(True))


def _call(name: str, at: ast.AST, *args: ast.expr) -> ast.expr:
    return ast.copy_location(ast.Call(ast.Name(name, ast.Load()), list(args), []), at)
