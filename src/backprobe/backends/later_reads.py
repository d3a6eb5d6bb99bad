"""Finds the later statements that read a name, to learn what the program does with the value bound to it.

The source is read, and nothing is run. Only statements that certainly run after the binding are reported.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from backprobe.backends.call_sites import source_of, statement_at
from backprobe.backends.result_uses import BLOCKS, FUNCTIONS, NOT_PASSED_ON, names_in, statements_of
from backprobe.cuts.cutting_operations import Use, uses
from backprobe.record.source import Source

LEAVING = ast.Return | ast.Raise | ast.Break | ast.Continue


def passed_to(line: Source, name: str) -> Source | None:
    """Return the first later statement that may pass on the value that this line binds to a name.

    Return None if there is none, or if the source has changed. A statement that reads only a number or the shape of the
    value does not pass it on, unless it reads the value's address.
    """
    site = statement_at(line)
    if site is None or not isinstance(site.statement, ast.stmt) or name not in _stored(site.statement):
        return None
    for statement in _readers(site.statement, site.above, name):
        source = source_of(line.file, statement)
        found = uses(source.statement, name)
        if found is None or any(use.kind not in NOT_PASSED_ON or _is_address(use) for use in found):
            return source
    return None


def _is_address(use: Use) -> bool:
    # Does this use read the value's address in memory? Code that has the address can read all numbers of the value.
    return use.kind == "shape" and use.text.endswith(".data_ptr()")


def _readers(statement: ast.stmt, above: dict[ast.AST, ast.AST], name: str) -> Iterator[ast.stmt]:
    # Yield the statements that certainly run after this one, and read the name before it is bound again.
    node: ast.AST = statement
    while node in above and not isinstance(node, FUNCTIONS):
        node, child = above[node], node
        if isinstance(node, ast.Try | ast.ClassDef):
            return
        block = next((found for one in BLOCKS if child in (found := statements_of(node, one))), ())
        following = block[block.index(child) + 1 :] if block else ()
        for each in _in_turn([one for one in following if isinstance(one, ast.stmt)]):
            if name in names_in(each):
                yield each
            if name in _stored(each) or any(isinstance(one, LEAVING) for one in ast.walk(each)):
                return


def _in_turn(statements: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    # Yield the statements, including those in the body of each ``with``, which run whenever the ``with`` runs.
    for one in statements:
        yield one
        if isinstance(one, ast.With):
            yield from _in_turn(one.body)


def _stored(statement: ast.stmt) -> set[str]:
    # Return the names that an assignment, or the head of a ``for``, binds; empty for other statements.
    targets = [target for target in getattr(statement, "targets", [getattr(statement, "target", None)]) if target]
    nodes = (node for target in targets for node in ast.walk(target))
    return {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
