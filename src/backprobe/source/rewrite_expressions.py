"""Rewrites the expressions of a function, and creates the nodes of calls that report.

``rewrite.py`` rewrites statements, and describes rewritten code.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import Any

from backprobe.source.sites import CallSite, Origin, Site, operation
from backprobe.source.syntax_nodes import stored

SCOPE = "@scope"
MAY_WRITE = {"out", "inplace"}  # keywords by which a call may write into an argument


class ExpressionRewriter(ast.NodeTransformer):
    def __init__(self, lines: Sequence[str], operations: bool, calls: bool = False) -> None:
        self.lines, self.operations, self.calls = lines, operations, calls
        self.sites: list[Site] = []
        self.at: ast.AST = ast.Pass()  # the statement being rewritten, before any change
        self.own: tuple[str, ...] = ("",)  # the lines of the statement
        self.binds = ""  # the name that the statement binds, if calls are reported
        self.temporaries = 0
        self.named: set[int] = set()  # expressions whose statement gives their value a name

    # Methods that rewrite expressions.

    def visit_Call(self, node: ast.Call) -> ast.expr:
        origin = self._asked(node)
        if not (isinstance(node.func, ast.Name) and node.func.id == "super"):
            node.func = self._called(node)
        node.args = [self.visit(argument) for argument in node.args]
        for keyword in node.keywords:
            keyword.value = self.visit(keyword.value)
        return self._operation(node, origin)

    def _called(self, node: ast.Call) -> ast.Call:
        # Return the expression that takes the place of the called function: a call of the listener, which returns the
        # function to call.
        details: list[ast.expr] = []
        writes = any(keyword.arg is None or keyword.arg in MAY_WRITE for keyword in node.keywords)
        if writes or self.calls:
            details.append(ast.Constant(writes))
        if self.calls:
            details.append(self._call_site(node, ast.unparse(node.func), _arguments(node)))
        function = node.func
        if isinstance(function, ast.Attribute):
            function = self._owned(function)
        elif isinstance(function, ast.Call) or self.calls:
            function = self.visit(function)
        return self._report("call", function, *details)

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        text = ast.unparse(node) if self.calls else ""
        return self._loaded(self._owned(node), text) if isinstance(node.ctx, ast.Load) else self._owned(node)

    def visit_Starred(self, node: ast.Starred) -> ast.Starred:
        origin = Origin.of(node.value)
        node.value = self.visit(node.value)
        if isinstance(node.ctx, ast.Load):
            node.value = self._iterated(node.value, origin)
        return node

    def _loaded(self, place: ast.expr, text: str) -> ast.expr:
        # Return an expression that reads a rewritten place. If calls are numbered, the listener reads it.
        if not self.calls or isinstance(place, ast.Name) or _is_mangled(place):
            return place
        if isinstance(place, ast.Attribute):
            owner = text.rpartition(".")[0]
            site = self._texts_site(place.attr, text, {"0": owner})
            return self._report("attribute", site, place.value, ast.Constant(place.attr))
        assert isinstance(place, ast.Subscript)
        return self._report("operate", self._texts_site("getitem", text, {"0": text}), place.value, place.slice)

    def _iterated(self, value: ast.expr, origin: Origin) -> ast.expr:
        # Return an expression that is about to be iterated. If calls are numbered, the listener receives its value
        # first.
        if not self.calls:
            return value
        site = self._texts_site("iter", origin.expression, {"0": origin.expression})
        return self._report("iterate", site, value)

    def _owned(self, node: ast.Attribute) -> ast.Attribute:
        # Return an attribute, after rewriting the object that has it.
        node.value = self.visit(node.value)
        if node.attr == "data" and isinstance(node.ctx, ast.Load):  # autograd does not observe writes through ``.data``
            node.value = self._report("expose", node.value)
        return node

    def _visit_operator(self, node: Any) -> ast.expr:
        loads = not isinstance(node, ast.Subscript) or isinstance(node.ctx, ast.Load)
        operands = _operands(node) if self.calls and loads else {}
        if operands:
            return self._operated(node, operands)
        origin = self._asked(node)
        self.generic_visit(node)
        return self._operation(node, origin) if loads else node

    def _operated(self, node: ast.expr, operands: Mapping[str, ast.expr]) -> ast.expr:
        # Return a call of the listener that replaces an operator.
        site = self._call_site(node, operation(node), operands)
        visited = [self._index(self.visit(operand)) for operand in operands.values()]
        return self._report("operate", site, *visited)

    visit_BinOp = visit_UnaryOp = visit_Compare = visit_Subscript = _visit_operator

    def _asked(self, node: ast.expr) -> Origin | None:
        # Return the origin of an operation that gets a name of its own; otherwise None. Must be called before any part
        # of the operation is rewritten.
        wanted = self.operations and id(node) not in self.named and operation(node)
        return Origin.of(node) if wanted else None

    def _operation(self, node: Any, origin: Origin | None) -> ast.expr:
        if origin is None:
            return node  # type: ignore[no-any-return]  # an expression
        return self._report("name", ast.Constant(self._site(f"{origin.op}()", origin)), node)

    def _bound(self, value: ast.expr) -> ast.expr:
        # Rewrite an expression whose value gets a name from its statement. Therefore only the operations inside it get
        # names of their own.
        self.named.add(id(value))
        return self.visit(value)  # type: ignore[no-any-return]  # it is typed Any

    # Methods that make new nodes.

    def _bind_name(self, name: str, value: ast.expr, origin: Origin) -> ast.stmt:
        return self._assign(ast.Name(name), self._report("bind", ast.Constant(self._site(name, origin)), value))

    def _scope(self) -> ast.expr:
        return ast.Name(SCOPE)

    def _report(self, method: str, *arguments: ast.expr) -> ast.Call:
        return ast.copy_location(ast.Call(ast.Attribute(self._scope(), method), list(arguments), []), self.at)

    def _assign(self, target: ast.expr, value: ast.expr) -> ast.Assign:
        return ast.Assign([stored(target)], value)

    def _forget(self, name: ast.expr) -> ast.stmt:
        # Clear a temporary, so that it keeps nothing alive longer than the program itself would.
        return self._assign(name, ast.Constant(None))

    def _temporary(self) -> ast.expr:
        self.temporaries += 1
        return ast.Name(f"@{self.temporaries}", ast.Load())

    def _index(self, index: ast.expr) -> ast.expr:
        # Return a subscript as an ordinary expression, because ``a:b`` is only valid inside brackets.
        if isinstance(index, ast.Slice):
            parts = [part or ast.Constant(None) for part in (index.lower, index.upper, index.step)]
            return ast.Call(ast.Attribute(self._scope(), "slice"), parts, [])
        if isinstance(index, ast.Tuple):
            return ast.Tuple([self._index(element) for element in index.elts], ast.Load())
        return index

    def _site(self, local: str, origin: Origin) -> int:
        text, *below = self.own
        self.sites.append(Site(local, getattr(self.at, "lineno", 1), text, origin, tuple(below)))
        return len(self.sites) - 1

    def _call_site(
        self, node: Any, spelled: str, arguments: Mapping[str, ast.expr], origin: Origin | None = None
    ) -> ast.Constant:
        # Add a site for a call, and return the site's number. Must be called before any part of the call is rewritten.
        at: Any = node.func if isinstance(node, ast.Call) else node
        # If a chain of calls has several lines, this is the line of the function's name.
        line = at.end_lineno if at is not node else at.lineno
        text = self.lines[line - 1].strip() if 0 < line <= len(self.lines) else ""
        texts = tuple((key, ast.unparse(part)) for key, part in arguments.items())
        self.sites.append(CallSite(self.binds, line, text, origin or Origin.of(node), spelled=spelled, arguments=texts))
        return ast.Constant(len(self.sites) - 1)

    def _texts_site(self, spelled: str, expression: str, arguments: Mapping[str, str]) -> ast.Constant:
        # Add a site for an operation that the source does not write as a call, and return the site's number. It has the
        # line of the statement.
        line, origin = getattr(self.at, "lineno", 1), Origin(spelled, expression=expression)
        known = tuple(arguments.items())
        self.sites.append(CallSite(self.binds, line, self.own[0], origin, spelled=spelled, arguments=known))
        return ast.Constant(len(self.sites) - 1)


def _is_mangled(place: ast.expr) -> bool:
    # Is the place a private attribute, whose name Python mangles?
    return isinstance(place, ast.Attribute) and place.attr.startswith("__") and not place.attr.endswith("__")


def _arguments(call: ast.Call) -> dict[str, ast.expr]:
    # Return the arguments of a call by position or keyword, as far as the source shows them.
    is_known = not any(isinstance(part, ast.Starred) for part in call.args)
    positional = {str(at): part for at, part in enumerate(call.args)} if is_known else {}
    return positional | {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg is not None}


def _operands(node: ast.expr) -> dict[str, ast.expr]:
    # Return the operands of an operator by position. Empty if no gradient passes through the operator.
    match node:
        case ast.Subscript(value=owner, slice=index):
            return {"0": owner, "1": index}
        case ast.BinOp(left=left, right=right):
            return {"0": left, "1": right}
        case ast.UnaryOp(op=op, operand=operand) if not isinstance(op, ast.Not):
            return {"0": operand}
    return {}
