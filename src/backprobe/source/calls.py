"""Rewriting a function so that it reports each call and each operator, with what they are given, as they are made.

    y = square(x @ w)    ->  y = @scope.bind(2, @scope.call(1, square)(@scope.operate(0, x, w)))
    u[1:] *= v           ->  ...; @2 = @scope.operate(3, @2, v); ...

What a call binds is named as in ``backprobe.source.rewrite``, of which this is a variant.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from backprobe.source.rewrite import Rewriter, Rewritten
from backprobe.source.sites import OPERATORS, Origin, Site, augmented, operation


@dataclass(frozen=True)
class CallSite(Site):
    """One place in the source that makes a call.

    ``local`` is what the statement binds, empty where it binds nothing, and ``spelled`` how the source writes the
    function (for an operator its name). ``arguments`` are the texts of the arguments, by position or keyword as far as
    the source tells them.
    """

    spelled: str = ""
    arguments: tuple[tuple[str, str], ...] = ()


def rewrite_calls(node: Any, lines: Sequence[str], *, operations: bool) -> Rewritten:
    """The version of a function that reports its calls."""
    rewriter = _CallRewriter(lines, operations)
    return Rewritten(rewriter.function(copy.deepcopy(node)), tuple(rewriter.sites))


class _CallRewriter(Rewriter):
    def visit_Call(self, node: ast.Call) -> ast.expr:
        if isinstance(node.func, ast.Name) and node.func.id == "super":
            return node
        arguments = [(str(at), part) for at, part in enumerate(node.args)]
        if any(isinstance(part, ast.Starred) for part in node.args):
            arguments = []
        arguments += [(keyword.arg, keyword.value) for keyword in node.keywords if keyword.arg is not None]
        line = node.func.end_lineno  # where the name of the function stands, in a chain over several lines
        site = self._call_site(node, ast.unparse(node.func), arguments, line)
        function = node.func if isinstance(node.func, ast.Name) else self.visit(node.func)
        node.func = self._report("call", site, function)
        node.args = [self.visit(argument) for argument in node.args]
        for keyword in node.keywords:
            keyword.value = self.visit(keyword.value)
        return node

    def _visit_operator(self, node: Any) -> ast.expr:
        if isinstance(node, ast.Subscript):
            if not isinstance(node.ctx, ast.Load):
                return self.generic_visit(node)  # type: ignore[return-value]
            operands = [node.value, node.slice]
        elif isinstance(node, ast.BinOp):
            operands = [node.left, node.right]
        elif isinstance(node, ast.UnaryOp) and not isinstance(node.op, ast.Not):
            operands = [node.operand]
        else:
            return self.generic_visit(node)  # type: ignore[return-value]
        site = self._call_site(node, operation(node), [(str(at), part) for at, part in enumerate(operands)])
        visited = [self.visit(operand) for operand in operands]
        if isinstance(node, ast.Subscript):
            visited[1] = self._index(visited[1])
        return self._report("operate", site, *visited)

    visit_BinOp = visit_UnaryOp = visit_Subscript = _visit_operator

    def visit_AugAssign(self, node: ast.AugAssign) -> list[ast.stmt]:
        operands = [("0", node.target), ("1", node.value)]
        site = self._call_site(node, f"i{OPERATORS[type(node.op)]}", operands, origin=augmented(node))
        written = super().visit_AugAssign(node)
        for at, statement in enumerate(written):
            if isinstance(statement, ast.AugAssign):
                held = copy.copy(statement.target)
                held.ctx = ast.Load()  # type: ignore[union-attr]
                written[at] = self._assign(statement.target, self._report("operate", site, held, statement.value))
        return written

    def _call_site(
        self,
        node: Any,
        spelled: str,
        arguments: Sequence[tuple[str, ast.expr]],
        line: int | None = None,
        origin: Origin | None = None,
    ) -> ast.Constant:
        """The number of a site; taken before anything in the call is rewritten."""
        line = line or node.lineno
        text = self.lines[line - 1].strip() if 0 < line <= len(self.lines) else ""
        texts = tuple((key, ast.unparse(part)) for key, part in arguments)
        origin = origin or Origin.of(node)
        self.sites.append(CallSite(_bound(self.at), line, text, origin, spelled=spelled, arguments=texts))
        return ast.Constant(len(self.sites) - 1)


def _bound(statement: ast.AST) -> str:
    """What a statement binds, as far as it is one name."""
    match statement:
        case ast.Assign(targets=[target]) | ast.AugAssign(target=target) | ast.AnnAssign(target=target):
            return "" if isinstance(target, ast.Tuple | ast.List) else ast.unparse(target)
        case ast.Return():
            return "return"
    return ""
