"""Finds the order of a name's bindings: those that may have run before a place in the program is reached, and those
that must have run.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from backprobe.source.scopes import Binding, How, SourceNames, SourceScope, SourceText

LOOPS = (ast.For, ast.AsyncFor, ast.While)
SIMPLE = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Import, ast.ImportFrom, ast.With, ast.AsyncWith)
DEFINING = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
ALWAYS = (How.ARGUMENT, How.COMPREHENSION)
"""The kinds of bindings that count as having run before any other code of their scope."""

Position = tuple[int, int, int]


@dataclass(frozen=True)
class Point:
    """The place that the code of a scope has reached: ``node``, in ``text``. ``text`` is the last text that began to
    run.

    Without a ``node``, any code of the scope may have run.
    """

    text: SourceText
    scope: SourceScope
    node: ast.AST | None = None


class BindingOrder:
    """Decides which bindings of a program run before others, as far as the program's text shows it."""

    def __init__(self, names: SourceNames) -> None:
        self.parents = names.parents

    def may_precede(self, one: Binding, point: Point) -> bool:
        """May the binding have run before the point is reached?"""
        if one.how in ALWAYS or one.within.frame is not point.scope.frame:
            return True
        if point.node is None or one.text.order < point.text.order:
            return True
        if one.text.order > point.text.order:
            return False
        return self._is_before(one, point.node) or bool(self._common_loops(one, point.node))

    def surely_precedes(self, one: Binding, point: Point) -> bool:
        """Has the binding run whenever the point is reached? False if the text does not show it."""
        if one.how in ALWAYS:
            return True
        if one.within.frame is not point.scope.frame:
            return False
        statement = one.statement
        around = list(self._around(point.node))
        if one.how in (How.LOOP, How.WITH, How.EXCEPT) and statement in around:
            return any(part in around for part in statement.body)
        is_plain = isinstance(statement, SIMPLE) or (statement is one.node and isinstance(statement, DEFINING))
        parent = self.parents.get(statement)
        if not is_plain or parent is None:
            return False
        if isinstance(parent, ast.Module) and one.text is not point.text:
            return one.text.order < point.text.order
        if point.node is None:
            return parent is point.scope.node or isinstance(parent, ast.Module)
        below = next((inner for inner, outer in pairwise(around) if outer is parent), None)
        return below is not None and _are_in_order(parent, statement, below)

    def is_overridden(self, one: Binding, others: Sequence[Binding], point: Point) -> bool:
        """Does another binding certainly run after this one and before the point is reached?

        A binding in an earlier notebook cell does not count, because that cell may have ended with an error.
        """
        return any(
            other is not one
            and other.text is point.text
            and self.surely_precedes(other, point)
            and self._is_between(one, other, point)
            for other in others
        )

    def is_earlier(self, one: Binding, other: Binding) -> bool:
        """Is one of two bindings earlier in the text than the other?"""
        return one.how in ALWAYS or _end(one) <= _start(other)

    def are_alternatives(self, one: Binding, other: Binding) -> bool:
        """Are two bindings in different branches, only one of which runs?"""
        first, second = list(self._around(one.statement)), list(self._around(other.statement))
        common = next(node for node in first if node in second or isinstance(node, ast.Module))
        if common not in second or common in (one.statement, other.statement):
            return False
        return _is_one_chosen(common, first[first.index(common) - 1], second[second.index(common) - 1])

    def _is_between(self, one: Binding, other: Binding, point: Point) -> bool:
        # The other binding certainly runs before the point. Does it run after this one, on every path to the point?
        if one.within.frame is not point.scope.frame:
            return False
        if point.node is None or one.text is not point.text or self._is_before(one, point.node):
            return self.is_earlier(one, other)
        loops = self._common_loops(one, point.node)
        return bool(loops) and loops[0] in self._around(other.statement)

    def _is_before(self, one: Binding, node: Any) -> bool:
        # Is the binding before a node of the same text? If it is, it runs before the node, except in a later round of a
        # loop.
        if one.how is How.LOOP and one.statement.iter in self._around(node):
            return False
        return _end(one)[1:] <= (node.lineno, node.col_offset)

    def _common_loops(self, one: Binding, node: ast.AST) -> list[Any]:
        # Return the loops around both the binding and the node, innermost first. In a later round of such a loop, the
        # node may run before the binding.
        of_binding, of_node = list(self._around(one.statement)), list(self._around(node))
        return [
            loop
            for loop in of_node
            if isinstance(loop, LOOPS) and loop in of_binding and getattr(loop, "iter", None) not in of_node
        ]

    def _around(self, node: ast.AST | None) -> Iterator[ast.AST]:
        # Yield a node, its parent, the parent's parent, and so on, up to the module.
        while node is not None:
            yield node
            node = self.parents.get(node)


def _is_one_chosen(parent: ast.AST, first: ast.AST, second: ast.AST) -> bool:
    # Are these parts of a statement alternatives: branches of ``if`` or ``match``, or an ``except`` part of ``try``
    # and another part?
    match parent:
        case ast.If():
            return (first in parent.body) is not (second in parent.body)
        case ast.Match():
            return first is not second
        case ast.Try():
            caught = [part for part in (first, second) if isinstance(part, ast.ExceptHandler)]
            return bool(caught) and first is not second and not {first, second} & {*parent.finalbody}
    return False


def _are_in_order(parent: ast.AST, first: ast.AST, second: ast.AST) -> bool:
    # Are the two statements in the same list of statements of their parent, in this order?
    for _, held in ast.iter_fields(parent):
        if isinstance(held, list) and first in held and second in held:
            return held.index(first) < held.index(second)
    return False


def _start(one: Binding) -> Position:
    return one.text.order, one.node.lineno, one.node.col_offset


def _end(one: Binding) -> Position:
    # Return the position in the text after which the binding has run. An assignment runs after its value is computed.
    if one.how in (How.ASSIGNED, How.WALRUS):
        return one.text.order, one.statement.end_lineno, one.statement.end_col_offset
    return _start(one)
