"""Functions for nodes of syntax trees: they find parents, and give new nodes positions and contexts."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from backprobe.errors import NoSource

UNTOUCHED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
"""Definitions that are not rewritten together with the code around them. Functions may be rewritten when called."""


DISPLAYS = (ast.Tuple, ast.List, ast.Dict, ast.keyword, ast.Starred)
"""Types of nodes that may be between a call and an argument of the call."""


def parents(tree: ast.AST) -> dict[ast.AST, ast.AST]:
    """Return the parent of each node of a tree."""
    return {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}


def is_given(node: ast.AST, above: dict[ast.AST, ast.AST]) -> bool:
    """Is a value passed to a call, directly or inside a literal container? ``above`` maps nodes to parents."""
    node = above.get(node, node)
    while isinstance(node, DISPLAYS) and node in above:
        node = above[node]
    return isinstance(node, ast.Call)


def placed(statements: list[ast.stmt], at: ast.AST) -> list[ast.stmt]:
    """Give new statements the position of the statement that they replace, so that tracebacks show the user's line."""
    for statement in statements:
        if not hasattr(statement, "lineno"):
            ast.copy_location(statement, at)
    return statements


def complete(node: ast.AST, at: ast.AST) -> None:
    """Give the new nodes below ``node`` the position of their statement. ``node`` is part of the statement ``at``."""
    for field in node._fields:
        value = getattr(node, field, None)
        for part in value if isinstance(value, list) else (value,):
            if isinstance(part, ast.AST) and not isinstance(part, UNTOUCHED):
                if not hasattr(part, "lineno"):
                    _complete_one(part, at)
                complete(part, part if isinstance(part, ast.stmt) else at)


def _complete_one(node: Any, at: ast.AST) -> None:
    if "lineno" in node._attributes:
        ast.copy_location(node, at)
    if "ctx" in node._fields and not hasattr(node, "ctx"):
        node.ctx = ast.Load()


@contextmanager
def refusing_deep_nesting(of: str, *, asked: str, found: str) -> Iterator[None]:
    """Inside this context, NoSource is raised if a syntax tree is nested too deeply for Python's recursion limit."""
    try:
        yield
    except RecursionError:
        raise NoSource(
            f"an expression in {of} is nested too deeply to be rewritten",
            asked=asked,
            found=found,
            why="syntax trees are walked recursively, and Python limits how deep",
            next="give a part of it a name",
        ) from None


def untyped(node: Any) -> Any:
    """Give a definition empty type parameters, which Python requires from 3.12 on."""
    if "type_params" in node._fields:
        node.type_params = []
    return node


def stored(target: ast.expr) -> ast.expr:
    target = copy.copy(target)
    target.ctx = ast.Store()  # type: ignore[attr-defined]  # a target's node has one
    return target
