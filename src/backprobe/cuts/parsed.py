"""Expressions and statements as syntax trees, and the parts of them that have a text."""

from __future__ import annotations

import ast
import builtins
import copy
import re
import warnings
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from backprobe.cuts.operation_names import MODULES


@lru_cache(4096)
def parsed(text: str) -> ast.AST | None:
    """Parse an expression or a statement. The head of a compound statement is parsed as a statement without a body.

    An expression over several lines may lack its outer parentheses. None if the text is neither.
    """
    text = text.strip()
    alone = text.removeprefix("el")  # parse an elif as an if
    for whole in (text, f"{text}\n pass", alone, f"{alone}\n pass", f"({text}\n)"):
        try:
            with warnings.catch_warnings():  # Python has already issued these warnings when it compiled the program
                warnings.simplefilter("ignore")
                return ast.parse(whole)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
    return None


def parsed_expression(text: str) -> ast.expr | None:
    """Parse an expression; None if the text is no expression, or not a complete one."""
    match parsed(text):
        case ast.Module(body=[ast.Expr(value=expression)]):
            return expression
    return None


def parts_of(tree: ast.AST, text: str, kinds: tuple[type[Any], ...] = (ast.expr,)) -> list[Any]:
    """The parts of an expression that have this text."""
    return [node for node in ast.walk(tree) if isinstance(node, kinds) and ast.unparse(node) == text]


def own_parts_of(tree: ast.AST, text: str) -> list[Any]:
    """The parts with this text outside of lambdas, whose bodies run later; those inside if there are no others."""
    whole = tree.body[0] if isinstance(tree, ast.Module) and len(tree.body) == 1 else tree
    runs = whole.value if isinstance(whole, ast.Expr) else whole
    inside = {
        id(part)
        for node in ast.walk(tree)
        if isinstance(node, ast.Lambda) and node is not runs
        for part in ast.walk(node.body)
    }
    parts = parts_of(tree, text)
    return [part for part in parts if id(part) not in inside] or parts


def with_parts(tree: ast.AST, instead: Mapping[ast.expr, str]) -> str:
    """The text of an expression, with another text in place of each of these nodes. The tree itself stays unchanged.

    >>> tree = ast.parse("torch.log(x - y)", mode="eval").body
    >>> with_parts(tree, {tree.args[0]: "h"})
    'torch.log(h)'
    """
    parts = {id(part): ast.parse(text, mode="eval").body for part, text in instead.items()}
    return ast.unparse(copy.deepcopy(tree, parts))  # a node that is a key of the memo is replaced by its value


def last_name(function: ast.AST) -> str:
    """The last part of a called function's name: ``relu`` for ``torch.relu``, ``0`` for ``layers[0]``."""
    match function:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case ast.Subscript(slice=ast.Constant(value=int() | str() as item)):
            return str(item)
    return ""


def has_part(text: str, part: str) -> bool:
    """Does an expression contain a part with the given text? The answer is no if the part is a single name.

    >>> has_part("(b[0] * 2).sum()", "b[0]"), has_part("b[01]", "b")
    (True, False)
    """
    tree, wanted = parsed(text), parsed(part)
    spelled = ast.unparse(wanted) if wanted is not None else ""
    return tree is not None and not spelled.isidentifier() and bool(parts_of(tree, spelled))


def unread(text: str, known: frozenset[str]) -> bool:
    """Does an expression mention a name other than these names, libraries and Python's own, such as ``self``?

    >>> unread("F.linear(x, self.weight)", frozenset("x")), unread("torch.tanh(x)", frozenset("x"))
    (True, False)
    """
    tree = parsed(text)
    names = [node.id for node in ast.walk(tree) if isinstance(node, ast.Name)] if tree is not None else []
    roots = {re.split(r"[.\[]", name)[0] for name in known}
    return not set(names) <= {*roots, *MODULES, *dir(builtins)}
