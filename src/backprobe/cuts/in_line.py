"""The calls and names in the text of a line of code."""

from __future__ import annotations

import ast
from collections.abc import Collection

from backprobe.cuts.parsed import last_name, parsed


def calls_in(line: str) -> list[ast.Call]:
    """The calls on a line."""
    tree = parsed(line)
    return [node for node in ast.walk(tree) if isinstance(node, ast.Call)] if tree is not None else []


def called_in(line: str, names: Collection[str]) -> str:
    """Return the text of a line's only call of one of these functions; empty if there is none, or several.

    >>> called_in("kept = net.state.assign(out) * 2", {"assign"})
    'net.state.assign(out)'
    """
    found = [ast.unparse(call) for call in calls_in(line) if last_name(call.func) in names]
    return found[0] if len(found) == 1 else ""


def argument_of(call: str) -> str:
    """Return the text of a call's first argument; empty if the call has none.

    >>> argument_of("tf.Variable(model(x), trainable=False)")
    'model(x)'
    """
    calls = calls_in(call)
    return ast.unparse(calls[0].args[0]) if calls and calls[0].args else ""


def names_in(statement: str) -> set[str]:
    """The names that a statement reads."""
    return _named(statement, ast.Load)


def names_bound(statement: str) -> set[str]:
    """Return the names that a statement binds.

    >>> sorted(names_bound("w, b = layer.get_weights()"))
    ['b', 'w']
    """
    return _named(statement, ast.Store)


def _named(statement: str, context: type[ast.expr_context]) -> set[str]:
    tree = parsed(statement)
    nodes = () if tree is None else ast.walk(tree)
    return {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, context)}
