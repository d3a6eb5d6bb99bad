"""Rewrites a function's syntax tree so that the running function reports every value that it binds to a name.

The rewritten body reports to one object, its scope, in the local variable ``@scope`` (a name that no source can
contain):

    u = x * w            ->  u = @scope.bind(0, x * w)
    a, b = f(u)          ->  @1, @2 = @scope.call(f)(u); a = @scope.bind(1, @1); b = @scope.bind(2, @2)
    u += 1               ->  @3 = u; @4 = 1; @scope.writing(@3); @3 += @4; u = @scope.wrote(3, @3)

Temporaries are set to None after their use, which is left out here.

If calls are numbered, calls and most operators have sites of their own, and these operators become calls as well:

    y = square(x @ w)    ->  y = @scope.bind(2, @scope.call(square, False, 0)(@scope.operate(1, x, w)))
    a, b = u.T           ->  @1, @2 = @scope.iterate(1, @scope.attribute(0, u, "T")); a = ...; b = ...
    u[0] = x             ->  @1 = x; @2 = u; @3 = 0; @scope.put(1, @2, @3, @1)

Every compound target is first reduced to single targets, in the order in which Python itself assigns, so that there is
one way to handle each kind of single target. The integers index the function's table of ``Site``s.

The meaning of each method is documented in ``listener.py``. The code of a module or notebook cell reports to a constant
instead (``rewrite_module.py``), because a variable there would be in the user's namespace.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

from backprobe.source.rewrite_expressions import SCOPE, ExpressionRewriter
from backprobe.source.sites import (
    OPERATORS,
    Origin,
    Site,
    augmented,
    binding_of,
    captured,
    lines_of,
    names_read,
    operation,
    parameters,
)
from backprobe.source.syntax_nodes import complete, placed, stored, untyped

OPEN = "@open"


def rewrite(
    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda,
    lines: Sequence[str],
    *,
    operations: bool = False,
    calls: bool = False,
) -> tuple[ast.FunctionDef | ast.AsyncFunctionDef, tuple[Site, ...]]:
    """Return the rewritten function, and the sites that it reports. The given node itself is changed.

    With ``operations``, operations without a name get one. With ``calls``, calls and most operators are reported with
    their sites.
    """
    rewriter = Rewriter(lines, operations, calls)
    return rewriter.function(node), tuple(rewriter.sites)


class Rewriter(ExpressionRewriter):
    # Methods that rewrite the function itself.

    def function(self, node: Any) -> ast.FunctionDef | ast.AsyncFunctionDef:
        self.at = node
        arguments = node.args
        entering: list[ast.stmt] = [self._assign(ast.Name(SCOPE), ast.Call(ast.Name(OPEN), [], []))]
        for argument in parameters(arguments):
            self.at, self.own = argument, lines_of(argument, self.lines)
            entering.append(self._bind_name(argument.arg, ast.Name(argument.arg), Origin()))
            argument.annotation = None
        if isinstance(node, ast.Lambda):
            only = ast.copy_location(ast.Return(node.body), node.body)
            node = untyped(ast.copy_location(ast.FunctionDef("<lambda>", arguments, [only], []), node))
        body = self._body(node.body)
        # A ``with`` statement is used instead of try/finally. With try/finally, a frame that raises after its last line
        # would show a wrong line.
        node.body = [*entering, ast.With([ast.withitem(ast.Name(SCOPE))], body)]
        node.decorator_list, node.returns = [], None
        arguments.defaults = [ast.Constant(None) for _ in arguments.defaults]
        arguments.kw_defaults = [default and ast.Constant(None) for default in arguments.kw_defaults]
        for new in node.body:
            ast.copy_location(new, body[0])
        complete(node, node)
        return node  # type: ignore[no-any-return]

    def _body(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        # Rewrite a list of statements. Each of them may become several statements.
        result: list[ast.stmt] = []
        for statement in statements:
            outer = self.at, self.own, self.binds
            self.at, self.own = statement, lines_of(statement, self.lines)
            self.binds = binding_of(statement) if self.calls else ""
            new = self.visit(statement)
            result += placed(new if isinstance(new, list) else [new], statement)
            self.at, self.own, self.binds = outer
        return result

    def generic_visit(self, node: ast.AST) -> ast.AST:
        """Visit a node as the base class does, but let ``_body`` rewrite lists of statements."""
        for field, old in ast.iter_fields(node):
            if isinstance(old, list) and old and isinstance(old[0], ast.stmt):
                setattr(node, field, self._body(old))
            elif isinstance(old, list):
                old[:] = [self.visit(item) if isinstance(item, ast.AST) else item for item in old]
            elif isinstance(old, ast.AST):
                setattr(node, field, self.visit(old))
        return node

    def _untouched(self, node: ast.AST) -> ast.AST:
        return node

    visit_FunctionDef = visit_AsyncFunctionDef = visit_ClassDef = visit_Lambda = _untouched
    visit_Name = visit_Constant = _untouched

    # Methods that rewrite statements that bind.

    def visit_Assign(self, node: ast.Assign) -> list[ast.stmt]:
        origin = Origin.of(node.value)
        value = self._bound(node.value)
        if len(node.targets) == 1:
            return self._store(node.targets[0], value, origin)
        held = self._temporary()
        stores = [s for target in node.targets for s in self._store(target, held, origin)]
        return [self._assign(held, value), *stores, self._forget(held)]

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AnnAssign | list[ast.stmt]:
        if node.value is None:
            return node
        origin = Origin.of(node.value)
        stores = self._store(node.target, self._bound(node.value), origin)
        if not isinstance(node.target, ast.Name):
            return stores
        declared = ast.AnnAssign(node.target, ast.Constant(None), None, node.simple)  # keeps the name a local variable
        return [declared, *stores]

    def visit_AugAssign(self, node: ast.AugAssign) -> list[ast.stmt]:
        origin = augmented(node)
        text, held, operand = ast.unparse(node.target), self._temporary(), self._temporary()
        step: ast.stmt = ast.AugAssign(stored(held), node.op, operand)  # type: ignore[arg-type]
        if self.calls:
            call = self._call_site(node, f"i{OPERATORS[type(node.op)]}", {"0": node.target, "1": node.value}, origin)
            step = self._assign(held, self._report("operate", call, held, operand))
        before, place, used = self._opened(node.target)
        writing = [
            *before,
            self._assign(held, self._loaded(place, text)),
            self._assign(operand, self.visit(node.value)),
            ast.Expr(self._report("writing", held)),
            step,
        ]
        if isinstance(place, ast.Name):
            site = ast.Constant(self._site(text, origin))
            stores: list[ast.stmt] = [self._assign(place, self._report("wrote", site, held))]
        else:
            stores = [ast.Expr(self._report("written", held)), *self._store_in(place, text, held, origin)]
        return [*writing, *stores, *map(self._forget, (held, operand, *used))]

    def _opened(self, target: ast.expr) -> tuple[list[ast.stmt], ast.expr, list[ast.expr]]:
        # Evaluate the parts of a target once. Returns the statements that do this, the target with its parts replaced
        # by temporaries, and the temporaries.
        if isinstance(target, ast.Name):
            return [], ast.Name(target.id), []
        assert isinstance(target, ast.Attribute | ast.Subscript)
        owner = self._temporary()
        before: list[ast.stmt] = [self._assign(owner, self.visit(target.value))]
        if isinstance(target, ast.Attribute):
            return before, ast.Attribute(owner, target.attr), [owner]
        index = self._temporary()
        before.append(self._assign(index, self._index(self.visit(target.slice))))
        return before, ast.Subscript(owner, index), [owner, index]

    def _store(self, target: ast.expr, value: ast.expr, origin: Origin) -> list[ast.stmt]:
        # Return statements that assign ``value`` to a target of any kind. ``value`` is evaluated first, and only once.
        if isinstance(target, ast.Name):
            return [self._bind_name(target.id, value, origin)]
        if isinstance(target, ast.Starred):
            return self._store(target.value, value, Origin(origin.op, origin.reads))
        if isinstance(target, ast.Tuple | ast.List):
            parts = [self._temporary() for _ in target.elts]
            slots = [
                ast.Starred(stored(name), ast.Store()) if isinstance(element, ast.Starred) else stored(name)
                for element, name in zip(target.elts, parts, strict=True)
            ]
            starred = any(isinstance(slot, ast.Starred) for slot in slots)
            result: list[ast.stmt] = [self._assign(ast.Tuple(slots, ast.Store()), self._iterated(value, origin))]
            for at, (element, name) in enumerate(zip(target.elts, parts, strict=True)):
                own = origin.at(".*" if starred else f".{at}")
                result += [*self._store(element, name, own), self._forget(name)]
            return result
        held, text = self._temporary(), ast.unparse(target)
        before, place, used = self._opened(target)
        stores = self._store_in(place, text, held, origin)
        return [self._assign(held, value), *before, *stores, *map(self._forget, (held, *used))]

    def _store_in(self, place: ast.expr, text: str, held: ast.expr, origin: Origin) -> list[ast.stmt]:
        # Return statements that assign a temporary to an attribute or element of another temporary, with reports before
        # and after.
        assert isinstance(place, ast.Attribute | ast.Subscript)
        site = ast.Constant(self._site(text, origin))
        if isinstance(place, ast.Attribute):
            before = [ast.Expr(self._report("expose", place.value))] if place.attr == "data" else []
            return [*before, self._assign(place, self._report("bind", site, held))]
        if self.calls:
            put = self._texts_site("setitem", f"{text} = {origin.expression}", {"0": text, "2": origin.expression})
            return [ast.Expr(self._report("put", put, place.value, place.slice, held))]
        return [
            ast.Expr(self._report("writing", place.value)),
            self._assign(place, self._report("storing", site, place.value, held)),
            ast.Expr(self._report("stored", site, place.value)),
        ]

    def visit_NamedExpr(self, node: ast.NamedExpr) -> ast.NamedExpr:
        site = ast.Constant(self._site(node.target.id, Origin.of(node.value)))
        node.value = self._report("name", site, self._bound(node.value))
        return node

    def visit_Return(self, node: ast.Return) -> ast.Return:
        if node.value is not None:
            site = ast.Constant(self._site("return", Origin.of(node.value)))
            node.value = self._report("bind", site, self._bound(node.value))
        return node

    def visit_For(self, node: Any) -> Any:
        origin, passed = Origin.of_turn(node.iter), Origin.of(node.iter)
        node.iter = self.visit(node.iter)
        if isinstance(node, ast.For):
            node.iter = self._iterated(node.iter, passed)
        node.target, stores = self._received(node.target, origin)
        node.body = [*stores, *self._body(node.body)]
        node.orelse = self._body(node.orelse)
        return node

    visit_AsyncFor = visit_For

    def visit_With(self, node: Any) -> Any:
        """Give each context manager a statement of its own, because the next one may use the target of this one."""
        item, *others = node.items
        origin, opening = Origin(reads=names_read(item.context_expr)), list[ast.stmt]()
        item.context_expr = self.visit(item.context_expr)
        if item.optional_vars is not None:
            item.optional_vars, opening = self._received(item.optional_vars, origin)
        if others:
            inner = ast.copy_location(type(node)(others, node.body), node)
            node.items, node.body = [item], [*opening, self.visit(inner)]
        else:
            node.body = [*opening, *self._body(node.body)]
        return node

    visit_AsyncWith = visit_With

    def _received(self, target: ast.expr, origin: Origin) -> tuple[ast.expr, list[ast.stmt]]:
        # Return what Python itself assigns instead of a target (in ``for`` and ``with``), and the statements that
        # follow. A name stays, and is reported. For any other target it is a temporary, which is then assigned to the
        # target.
        if isinstance(target, ast.Name):
            return target, placed([self._bind_name(target.id, ast.Name(target.id), origin)], self.at)
        held = self._temporary()
        stores = [*self._store(target, held, origin), self._forget(held)]
        return stored(held), placed(stores, self.at)

    def visit_match_case(self, node: ast.match_case) -> ast.match_case:
        names = captured(node.pattern)
        if node.guard is not None:
            node.guard = self.visit(node.guard)
        binds = [self._bind_name(name, ast.Name(name), Origin()) for name in names]
        node.body = [*placed(binds, node.body[0]), *self._body(node.body)]
        return node

    def visit_comprehension(self, node: ast.comprehension) -> ast.comprehension:
        origin, passed = Origin.of_turn(node.iter), Origin.of(node.iter)
        node.iter = self.visit(node.iter)
        if not node.is_async:
            node.iter = self._iterated(node.iter, passed)
            node.iter = self._report("each", ast.Constant(self._template(node.target, origin)), node.iter)
        node.ifs = [self.visit(test) for test in node.ifs]
        return node

    def _template(self, target: ast.expr, origin: Origin) -> Any:
        # Return the sites of a comprehension's targets, nested like the targets. A target that is no name, such as an
        # attribute, has None.
        if isinstance(target, ast.Name):
            return self._site(target.id, origin)
        if isinstance(target, ast.Tuple | ast.List):
            return tuple(self._template(element, origin.at(f".{at}")) for at, element in enumerate(target.elts))
        return None

    def visit_Delete(self, node: ast.Delete) -> list[ast.stmt]:
        names = [ast.Constant(t.id) for t in node.targets if isinstance(t, ast.Name)]
        result: list[ast.stmt] = [node, *([ast.Expr(self._report("forget", *names))] if names else [])]
        if len(names) < len(node.targets):
            reads = tuple(name for target in node.targets for name in names_read(target))
            site = ast.Constant(self._site("", Origin(reads=reads)))
            result.append(ast.Expr(self._report("done", site, ast.Constant(None))))
        return result

    def visit_Expr(self, node: ast.Expr) -> ast.Expr:
        if isinstance(node.value, ast.Constant):
            return node
        site = ast.Constant(self._site("", Origin(operation(node.value), names_read(node.value))))
        node.value = self._report("done", site, self.visit(node.value))
        return node
