"""Rewrites the code of a module, such as a notebook cell, like that of a function, but with another listener."""

from __future__ import annotations

import ast
import copy
from collections.abc import Collection, Sequence
from typing import Any

from backprobe.source.module_names import header_reads
from backprobe.source.rewrite import Rewriter
from backprobe.source.sites import Origin, Site
from backprobe.source.syntax_nodes import complete, placed, stored


def rewrite_module(
    tree: ast.Module, lines: Sequence[str], scope: str, *, operations: bool, announced: Collection[str]
) -> tuple[ast.Module, tuple[Site, ...]]:
    """Return the rewritten code of a module, and its sites. If the last statement is an expression, the code also
    reports its value.

    ``scope`` is a placeholder text for the listener. After compilation it is replaced by the listener itself. Each
    statement that reads one of the ``announced`` names reports this before it runs.
    """
    rewriter = _ModuleRewriter(lines, operations)
    rewriter.scope, rewriter.announced = scope, announced
    return rewriter.module(copy.deepcopy(tree)), tuple(rewriter.sites)


class _ModuleRewriter(Rewriter):
    # Rewrites a module. All variables at module level are in the user's namespace, so the listener is a constant of the
    # code instead of a variable.
    scope = ""
    announced: Collection[str] = ()
    last: ast.stmt | None = None

    def module(self, tree: ast.Module) -> ast.Module:
        self.last = tree.body[-1]
        tree.body = self._body(tree.body)
        complete(tree, tree)
        return tree

    def _scope(self) -> ast.expr:
        return ast.Constant(self.scope)

    def _temporary(self) -> ast.expr:
        self.temporaries += 1
        return ast.Attribute(self._scope(), f"@{self.temporaries}", ast.Load())

    def _body(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        result: list[ast.stmt] = []
        for statement in statements:
            names: list[ast.expr] = [ast.Constant(name) for name in header_reads(statement) if name in self.announced]
            if names:
                announcing = ast.Expr(ast.Call(ast.Attribute(self._scope(), "reads"), names, []))
                result += placed([announcing], statement)
            result += super()._body([statement])
        return result

    def visit_Expr(self, node: ast.Expr) -> ast.Expr:
        if node is not self.last:
            return super().visit_Expr(node)
        site = ast.Constant(self._site("return", Origin.of(node.value)))
        node.value = self._report("last", site, self._bound(node.value))
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AnnAssign | list[ast.stmt]:
        # At module level an annotation is evaluated after the assignment, and Python stores the annotation of a name.
        if node.value is None:
            return node
        stores = self._store(node.target, self._bound(node.value), Origin.of(node.value))
        named = isinstance(node.target, ast.Name)
        target: Any = node.target if named else stored(self._temporary())
        return [*stores, ast.AnnAssign(target, node.annotation, None, node.simple if named else 0)]
