"""Finds parameters that a program takes out of the graph near the call of their model, such as a penalty with
``.data``.

Only source is read, around the call or in a module's forward; nothing is run. A value near a call is reported only if
it reaches ``backward()`` through names of the same function.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from types import CodeType
from typing import NamedTuple

from backprobe.backends.call_sites import mentions, site_at, source_of
from backprobe.cuts.cutting_operations import Use, unseen_uses, use_of, uses
from backprobe.cuts.in_line import names_bound, names_in
from backprobe.cuts.lines import line_of
from backprobe.record.source import Source
from backprobe.source.by_code import by_code

CUTTING = ("detach", "data", "number", "numpy", "copied", "integer")
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
SIMPLE = (ast.Assign, ast.AugAssign, ast.AnnAssign)


class CutBeside(NamedTuple):
    """A value that is taken out of the graph, the expression that takes it out, and the line of that expression."""

    value: str
    use: Use
    source: Source


@by_code(256)
def around_call(code: CodeType, at: int) -> tuple[CutBeside, ...]:
    """Return the parts of a model that are taken out of the graph in the function that calls the model. Conditional
    uses do not count, nor do statements whose results do not reach a ``backward()`` of that function.
    """
    site = site_at(code, at)
    if site is None or not isinstance(site.node, ast.Call) or not isinstance(site.node.func, ast.Name | ast.Attribute):
        return ()
    around: ast.AST = site.statement
    while around in site.above and not isinstance(around, FUNCTIONS):
        around = site.above[around]
    model, own = ast.unparse(site.node.func), [*_own(around)]
    loops = [node for node in own if isinstance(node, ast.For) and ast.unparse(node.iter).startswith(f"{model}.")]
    items = {name.id for node in loops for name in ast.walk(node.target) if isinstance(name, ast.Name)}
    found = []
    for statement in _leading_to_backward(own):
        source = source_of(code.co_filename, statement)
        for value, use in _uses(source.statement, model, items):
            if use.kind in CUTTING and not use.is_conditional:
                found.append(CutBeside(value, use, line_of(source, use.text)))
    return tuple(dict.fromkeys(found))


@by_code(1024)
def in_forward(code: CodeType, parameter: str) -> tuple[CutBeside, ...]:
    """Return the uses of a parameter in a module's forward that take the parameter out of the graph. Only unconditional
    uses count, in statements that bind a name or return.
    """
    found = []
    for one in mentions(code, parameter):
        use = use_of(one.source.statement, one.text)
        is_kept = bool(names_bound(one.source.statement)) or one.source.statement.strip().startswith("return ")
        if use is not None and use.kind in CUTTING and is_kept and not use.is_conditional:
            found.append(CutBeside(one.text, use, line_of(one.source, use.text)))
    return tuple(found)


def _uses(text: str, model: str, items: set[str]) -> Iterator[tuple[str, Use]]:
    for value, use in unseen_uses(text, frozenset(), frozenset(), nested=True):
        if value.startswith((f"{model}.", f"{model}[")):
            yield value, use
    for name in sorted(items):
        yield from ((name, use) for use in uses(text, name) or ())


def _own(function: ast.AST) -> Iterator[ast.stmt]:
    # Yield the statements of a function without those of nested functions.
    for child in ast.iter_child_nodes(function):
        if isinstance(child, FUNCTIONS):
            continue
        if isinstance(child, ast.stmt):
            yield child
        yield from _own(child)


def _leading_to_backward(statements: Sequence[ast.stmt]) -> list[ast.stmt]:
    # Return the assignments whose results are used, directly or through other names, in a call of ``backward()``, and
    # the statements with these calls.
    calls = [
        node.func.value
        for one in statements
        if isinstance(one, ast.Expr)
        for node in ast.walk(one)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "backward"
    ]
    wanted = {name for call in calls for name in names_in(ast.unparse(call))}
    found: dict[int, ast.stmt] = {}
    changed = bool(wanted)
    while changed:
        changed = False
        for at, one in enumerate(statements):
            if at not in found and isinstance(one, SIMPLE) and wanted & names_bound(ast.unparse(one)):
                found[at], changed = one, True
                wanted |= names_in(ast.unparse(one))
    runs = [one for one in statements if isinstance(one, ast.Expr) and any(c in [*ast.walk(one)] for c in calls)]
    return [*(found[at] for at in sorted(found)), *runs]
