"""Rewriting a function's syntax tree so that it reports, while it runs, every value it binds to a name.

The rewritten body talks to one object, its scope, in the local variable ``@scope`` (a spelling no source can use):

    u = x * w            ->  u = @scope.bind(0, x * w)
    a, b = f(u)          ->  @0, @1 = @scope.call(f)(u); a = @scope.bind(1, @0); b = @scope.bind(2, @1)
    u += 1               ->  @scope.writing(u); u += 1; u = @scope.wrote(3, u)

Where calls are numbered, each call and operator has a site of its own and each operator is a call as well:

    y = square(x @ w)    ->  y = @scope.bind(2, @scope.call(square, False, 1)(@scope.operate(0, x, w)))
    a, b = u.T           ->  @0, @1 = @scope.iterate(1, @scope.attribute(0, u, "T")); a = ...; b = ...
    u[0] = x             ->  @1 = x; @2 = u; @3 = 0; @scope.put(0, @2, @3, @1)

Every compound target is first lowered to single ones, in the order in which Python itself assigns, so that there is
one way in which each kind of single target is handled. The integers index the function's table of ``Site``s.

What each method means stands in ``listener.py``. The code of a module, of a notebook cell, talks to a constant instead
(``rewrite_module.py``): there a variable would be in the user's namespace.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from backprobe.errors import NoSource
from backprobe.source.sites import (
    OPERATORS,
    CallSite,
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

SCOPE = "@scope"
OPEN = "@open"
MAY_WRITE = {"out", "inplace"}  # keywords of calls that write into an argument
UNTOUCHED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
"""Functions and classes inside keep their text: they are rewritten themselves when they are called."""


def rewrite(
    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda,
    lines: Sequence[str],
    *,
    operations: bool = False,
    calls: bool = False,
) -> tuple[ast.FunctionDef | ast.AsyncFunctionDef, tuple[Site, ...]]:
    """The reporting version of a function, made out of this very node, and the sites that it reports.

    With ``operations`` each subexpression gets a name, with ``calls`` each call and operator is reported with its site.
    """
    rewriter = Rewriter(lines, operations, calls)
    return rewriter.function(node), tuple(rewriter.sites)


class Rewriter(ast.NodeTransformer):
    def __init__(self, lines: Sequence[str], operations: bool, calls: bool = False) -> None:
        self.lines, self.operations, self.calls = lines, operations, calls
        self.sites: list[Site] = []
        self.at: ast.AST = ast.Pass()  # the statement being rewritten, in the original text
        self.own: tuple[str, ...] = ("",)  # the lines of it
        self.binds = ""  # what it binds, where calls are reported
        self.temporaries = 0
        self.named: set[int] = set()  # expressions whose value gets a name anyway

    # the function itself

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
        # not try and finally: after its last line a frame that raises would say that this is where it stands
        node.body = [*entering, ast.With([ast.withitem(ast.Name(SCOPE))], body)]
        node.decorator_list, node.returns = [], None
        arguments.defaults = [ast.Constant(None) for _ in arguments.defaults]
        arguments.kw_defaults = [default and ast.Constant(None) for default in arguments.kw_defaults]
        for new in node.body:
            ast.copy_location(new, body[0])
        complete(node, node)
        return node  # type: ignore[no-any-return]

    def _body(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        """Rewrite a list of statements; each may become several."""
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
        """As in the base class, with every list of statements through ``_body``."""
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

    # statements that bind

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
        declared = ast.AnnAssign(node.target, ast.Constant(None), None, node.simple)  # the name stays a local
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
        """The parts of a target evaluated once: statements for that, the place they lead to, the temporaries used."""
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
        """Statements that assign ``value`` (evaluated once, first) to one target of whatever kind."""
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
        """Assign a temporary into an attribute or element of a temporary, saying so before and after."""
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
        origin, passed = Origin(reads=names_read(node.iter)), Origin.of(node.iter)
        node.iter = self.visit(node.iter)
        if isinstance(node, ast.For):
            node.iter = self._iterated(node.iter, passed)
        node.target, stores = self._received(node.target, origin)
        node.body = [*stores, *self._body(node.body)]
        node.orelse = self._body(node.orelse)
        return node

    visit_AsyncFor = visit_For

    def visit_With(self, node: Any) -> Any:
        """Each manager in a statement of its own: the next one may use what the target of this one was bound to."""
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
        """A target that Python itself assigns (for, with): a temporary instead, and the statements that follow."""
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
        reads, passed = names_read(node.iter), Origin.of(node.iter)
        node.iter = self.visit(node.iter)
        if not node.is_async:
            node.iter = self._iterated(node.iter, passed)
            node.iter = self._report("each", ast.Constant(self._template(node.target, reads)), node.iter)
        node.ifs = [self.visit(test) for test in node.ifs]
        return node

    def _template(self, target: ast.expr, reads: tuple[str, ...]) -> Any:
        """The sites of a comprehension's targets, nested as they are; None for one that is not known beforehand."""
        if isinstance(target, ast.Name):
            return self._site(target.id, Origin(reads=reads))
        if isinstance(target, ast.Tuple | ast.List):
            return tuple(self._template(element, reads) for element in target.elts)
        return None

    def visit_Delete(self, node: ast.Delete) -> list[ast.stmt]:
        names = [ast.Constant(t.id) for t in node.targets if isinstance(t, ast.Name)]
        return [node, *([ast.Expr(self._report("forget", *names))] if names else [])]

    def visit_Expr(self, node: ast.Expr) -> ast.Expr:
        if isinstance(node.value, ast.Constant):
            return node
        site = ast.Constant(self._site("", Origin(operation(node.value), names_read(node.value))))
        node.value = self._report("done", site, self.visit(node.value))
        return node

    # expressions

    def visit_Call(self, node: ast.Call) -> ast.expr:
        origin = self._asked(node)
        if not (isinstance(node.func, ast.Name) and node.func.id == "super"):
            node.func = self._called(node)
        node.args = [self.visit(argument) for argument in node.args]
        for keyword in node.keywords:
            keyword.value = self.visit(keyword.value)
        return self._operation(node, origin)

    def _called(self, node: ast.Call) -> ast.Call:
        """What is called instead of the function of a call."""
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
        """The value of a place that has been rewritten, as the listener reads it where calls are numbered."""
        if not self.calls or isinstance(place, ast.Name) or _is_mangled(place):
            return place
        if isinstance(place, ast.Attribute):
            owner = text.rpartition(".")[0]
            site = self._texts_site(place.attr, text, {"0": owner})
            return self._report("attribute", site, place.value, ast.Constant(place.attr))
        assert isinstance(place, ast.Subscript)
        return self._report("operate", self._texts_site("getitem", text, {"0": text}), place.value, place.slice)

    def _iterated(self, value: ast.expr, origin: Origin) -> ast.expr:
        """An expression that is about to be iterated, as the listener gives it where calls are numbered."""
        if not self.calls:
            return value
        site = self._texts_site("iter", origin.expression, {"0": origin.expression})
        return self._report("iterate", site, value)

    def _owned(self, node: ast.Attribute) -> ast.Attribute:
        """An attribute whose owner is rewritten."""
        node.value = self.visit(node.value)
        if node.attr == "data" and isinstance(node.ctx, ast.Load):  # a way to write without autograd seeing it
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
        """A call of the listener in the place of an operator."""
        site = self._call_site(node, operation(node), operands)
        visited = [self._index(self.visit(operand)) for operand in operands.values()]
        return self._report("operate", site, *visited)

    visit_BinOp = visit_UnaryOp = visit_Compare = visit_Subscript = _visit_operator

    def _asked(self, node: ast.expr) -> Origin | None:
        """The origin of an operation that gets a name of its own; taken before anything in it is rewritten."""
        wanted = self.operations and id(node) not in self.named and operation(node)
        return Origin.of(node) if wanted else None

    def _operation(self, node: Any, origin: Origin | None) -> ast.expr:
        if origin is None:
            return node  # type: ignore[no-any-return]
        return self._report("name", ast.Constant(self._site(f"{origin.op}()", origin)), node)

    def _bound(self, value: ast.expr) -> ast.expr:
        """Rewrite an expression whose own value gets a name: only what is inside it is unnamed."""
        self.named.add(id(value))
        return self.visit(value)  # type: ignore[no-any-return]

    # making nodes

    def _bind_name(self, name: str, value: ast.expr, origin: Origin) -> ast.stmt:
        return self._assign(ast.Name(name), self._report("bind", ast.Constant(self._site(name, origin)), value))

    def _scope(self) -> ast.expr:
        return ast.Name(SCOPE)

    def _report(self, method: str, *arguments: ast.expr) -> ast.Call:
        return ast.copy_location(ast.Call(ast.Attribute(self._scope(), method), list(arguments), []), self.at)

    def _assign(self, target: ast.expr, value: ast.expr) -> ast.Assign:
        return ast.Assign([stored(target)], value)

    def _forget(self, name: ast.expr) -> ast.stmt:
        """A temporary must hold nothing longer than the program itself would."""
        return self._assign(name, ast.Constant(None))

    def _temporary(self) -> ast.expr:
        self.temporaries += 1
        return ast.Name(f"@{self.temporaries}", ast.Load())

    def _index(self, index: ast.expr) -> ast.expr:
        """A subscript as a value: ``a:b`` is one only inside brackets."""
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
        """The number of a call; taken before anything in it is rewritten."""
        at: Any = node.func if isinstance(node, ast.Call) else node
        line = at.end_lineno if at is not node else at.lineno  # of the function's name, in a chain over several lines
        text = self.lines[line - 1].strip() if 0 < line <= len(self.lines) else ""
        texts = tuple((key, ast.unparse(part)) for key, part in arguments.items())
        self.sites.append(CallSite(self.binds, line, text, origin or Origin.of(node), spelled=spelled, arguments=texts))
        return ast.Constant(len(self.sites) - 1)

    def _texts_site(self, spelled: str, expression: str, arguments: Mapping[str, str]) -> ast.Constant:
        """The number of an operation that the source does not write as a call, in the line of its statement."""
        line, origin = getattr(self.at, "lineno", 1), Origin(spelled, expression=expression)
        known = tuple(arguments.items())
        self.sites.append(CallSite(self.binds, line, self.own[0], origin, spelled=spelled, arguments=known))
        return ast.Constant(len(self.sites) - 1)


def placed(statements: list[ast.stmt], at: ast.AST) -> list[ast.stmt]:
    """New statements stand where the one stands that they replace, so that tracebacks show the user's line."""
    for statement in statements:
        if not hasattr(statement, "lineno"):
            ast.copy_location(statement, at)
    return statements


def complete(node: ast.AST, at: ast.AST) -> None:
    """Give the new nodes below ``node``, which is part of the statement ``at``, the place of their statement."""
    for field in node._fields:
        value = getattr(node, field, None)
        for part in value if isinstance(value, list) else (value,):
            if isinstance(part, ast.AST) and not isinstance(part, UNTOUCHED):
                if not hasattr(part, "lineno"):
                    _complete_one(part, at)
                complete(part, part if isinstance(part, ast.stmt) else at)


def _complete_one(node: Any, at: ast.AST) -> None:
    if "lineno" in node._attributes:
        ast.copy_location(node, at)
    if "ctx" in node._fields and not hasattr(node, "ctx"):
        node.ctx = ast.Load()


def _is_mangled(place: ast.expr) -> bool:
    """Is it a private attribute of a class, whose name Python completes?"""
    return isinstance(place, ast.Attribute) and place.attr.startswith("__") and not place.attr.endswith("__")


def _arguments(call: ast.Call) -> dict[str, ast.expr]:
    """The arguments of a call, by position or keyword as far as the source shows them."""
    is_known = not any(isinstance(part, ast.Starred) for part in call.args)
    positional = {str(at): part for at, part in enumerate(call.args)} if is_known else {}
    return positional | {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg is not None}


def _operands(node: ast.expr) -> dict[str, ast.expr]:
    """What an operator is applied to, by position; none where it is not one that derivatives go through."""
    match node:
        case ast.Subscript(value=owner, slice=index):
            return {"0": owner, "1": index}
        case ast.BinOp(left=left, right=right):
            return {"0": left, "1": right}
        case ast.UnaryOp(op=op, operand=operand) if not isinstance(op, ast.Not):
            return {"0": operand}
    return {}


@contextmanager
def refusing_deep_nesting(of: str, *, asked: str, found: str) -> Iterator[None]:
    """Syntax trees are walked recursively, and Python limits how deep. Raises NoSource."""
    try:
        yield
    except RecursionError:
        raise NoSource(
            f"an expression in {of} is nested too deeply to be rewritten", asked=asked, found=found,
            why="syntax trees are walked recursively, and Python limits how deep", next="give a part of it a name",
        ) from None  # fmt: skip


def untyped(node: Any) -> Any:
    """From 3.12 on a definition has type parameters, and the compiler wants to see that there are none."""
    if "type_params" in node._fields:
        node.type_params = []
    return node


def stored(target: ast.expr) -> ast.expr:
    target = copy.copy(target)
    target.ctx = ast.Store()  # type: ignore[attr-defined]
    return target
