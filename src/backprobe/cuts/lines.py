"""Finds the line on which a part of a multi-line statement is."""

from __future__ import annotations

import ast
from dataclasses import replace
from functools import lru_cache

from backprobe.cuts.parsed import own_parts_of, parsed
from backprobe.record.source import Source


@lru_cache(4096)
def line_of(statement: Source, part: str) -> Source:
    """Return the line of a statement that contains a given part; the statement itself if it has no such part, or has it
    in its first line.

    If the part spans several lines, its operation decides: for a chain of calls that is the last method.

    >>> from backprobe.record.source import Source
    >>> line_of(Source("train.py", 7, "y = (u", below=("    .detach()", ")")), "u.detach()").line
    8
    """
    tree = parsed(statement.statement) if statement.below else None
    if tree is None:
        return statement
    lines = [_line(node) for node in own_parts_of(tree, part)]
    down = min(lines, default=1) - 1
    if not 0 < down <= len(statement.below):
        return statement
    return replace(statement, line=statement.line + down, text=statement.below[down - 1].strip(), below=())


def _line(node: ast.expr) -> int:
    # The number of the line with the operation: for a call its function, for a comprehension its element.
    match node:
        case ast.Call(func=function):
            return function.end_lineno or function.lineno
        case ast.Attribute():
            return node.end_lineno or node.lineno
        case ast.ListComp(elt=each) | ast.SetComp(elt=each) | ast.GeneratorExp(elt=each) | ast.DictComp(value=each):
            return _line(each)
    return node.lineno
