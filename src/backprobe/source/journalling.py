"""Changes rewritten code so that it appends bound values to a journal, in place of a call for each binding.

    u = @scope.bind(3, x * w)        ->  u = x * w; @say((3, u))
    return @scope.bind(4, u)         ->  @returned = u; @say((4, @returned)); return @returned

``@say`` is ``@scope.extend``. Nearly always the scope is a list, so that a report costs no call of a Python function.
All other reports are calls of the scope's methods. A value that is bound in this way cannot be replaced.
"""

from __future__ import annotations

import ast
from typing import Any

from backprobe.source.rewrite_expressions import SCOPE
from backprobe.source.syntax_nodes import UNTOUCHED, complete, placed, stored

SAY, RETURNED, OWNER, FUNCTION, SAID = "@say", "@returned", "@owner", "@function", "@said"
SAID_OF_METHOD, TYPE, SAID_OF, ID = "@said_of_method", "@type", "@said_of", "@id"
WORDS = SAY, SAID_OF_METHOD, TYPE, SAID_OF, ID
"""The locals that a journalling function fills from ``words`` of its scope."""


def journalling(node: Any) -> Any:
    """Change a function that ``rewrite`` has made to its journalling version, in place.

    ``@open`` receives the first parameter, which for a method is its object.
    """
    opening, *rest = node.body
    *bound, within = rest
    parameters = [*node.args.posonlyargs, *node.args.args]
    opening.value.args = [ast.Name(parameters[0].arg) if parameters else ast.Constant(None)]
    words = ast.Tuple([stored(ast.Name(name)) for name in WORDS], ast.Store())
    say = ast.Assign([words], ast.Attribute(ast.Name(SCOPE), "words"))
    given = [part for one in bound for part in one.value.args]
    _Journalling().generic_visit(within)
    node.body = placed([opening, say, *([_said(given)] if given else []), within], within)
    complete(node, node)
    return node


def _word(word: str) -> ast.stmt:
    return ast.Expr(ast.Call(ast.Attribute(ast.Name(SCOPE), word), [], []))


def _said(parts: list[ast.expr]) -> ast.stmt:
    return ast.Expr(ast.Call(ast.Name(SAY), [ast.Tuple(parts, ast.Load())], []))


def _bound(node: ast.expr | None) -> list[ast.expr] | None:
    # The site and the value, if the expression is a report of a binding.
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="bind"), args=args) if name == SCOPE:
            return args
    return None


def _function(asked: ast.Call) -> ast.expr:
    # The expression to call in place of a function: the function itself if its report is known, else the scope decides.
    held = ast.NamedExpr(ast.Name(FUNCTION, ast.Store()), asked.args[0])
    known = _is_said(SAID_OF, ast.Call(ast.Name(ID), [held], []))
    asked.args = [ast.Name(FUNCTION)]
    return ast.IfExp(known, ast.Name(FUNCTION), asked)


def _method(asked: ast.Call, method: ast.Attribute) -> ast.expr:
    # The expression to call in place of an attribute, which may be a method. If the report for a method of this type
    # and name is known, this is the method itself. Otherwise the attribute is treated like a function.
    owner = ast.NamedExpr(ast.Name(OWNER, ast.Store()), method.value)
    key = ast.Tuple([ast.Call(ast.Name(TYPE), [owner], []), ast.Constant(method.attr)], ast.Load())
    bound = ast.Attribute(ast.Name(OWNER), method.attr, ast.Load())
    asked.args = [bound]
    return ast.IfExp(_is_said(SAID_OF_METHOD, key), bound, _function(asked))


def _is_said(known: str, key: ast.expr) -> ast.expr:
    # Is there a known report under this key? If so, it is made.
    said = ast.NamedExpr(ast.Name(SAID, ast.Store()), ast.Call(ast.Name(known), [key], []))
    say = ast.Compare(ast.Call(ast.Name(SAY), [ast.Name(SAID)], []), [ast.Is()], [ast.Constant(None)])
    return ast.BoolOp(ast.And(), [said, say])


class _Journalling(ast.NodeTransformer):
    within_comprehensions = 0

    def visit(self, node: ast.AST) -> Any:
        return node if isinstance(node, UNTOUCHED) else super().visit(node)

    def visit_Call(self, node: ast.Call) -> Any:
        self.generic_visit(node)
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="call"), args=[function]):
                if name != SCOPE or self.within_comprehensions:
                    return node
                return _method(node, function) if isinstance(function, ast.Attribute) else _function(node)
        return node

    def visit_comprehension_of(self, node: Any) -> Any:
        """Inside a comprehension ``:=`` is not allowed everywhere, so calls there are reported to the scope."""
        self.within_comprehensions += 1
        self.generic_visit(node)
        self.within_comprehensions -= 1
        return node

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = visit_comprehension_of

    def visit_Assign(self, node: ast.Assign) -> Any:
        self.generic_visit(node)
        found = _bound(node.value)
        if found is None or not isinstance(node.targets[0], ast.Name):
            return node
        at, value = found
        held = ast.Name(node.targets[0].id, ast.Load())
        is_there = isinstance(value, ast.Name) and value.id == held.id  # already bound: a parameter, or a loop variable
        return placed([*([] if is_there else [ast.Assign(node.targets, value)]), _said([at, held])], node)

    def visit_With(self, node: Any) -> Any:
        """A ``with`` statement may switch gradient recording off or on, so this is checked at the start of its body and
        after it.
        """
        self.generic_visit(node)
        node.body = [*placed([_word("within")], node.body[0]), *node.body]
        return [node, *placed([_word("within")], node)]

    visit_AsyncWith = visit_With

    def visit_Delete(self, node: ast.Delete) -> Any:
        """A ``del`` statement may remove an item from a bound container, so the journal is processed before it."""
        return (
            node if all(isinstance(one, ast.Name) for one in node.targets) else [*placed([_word("settle")], node), node]
        )

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> ast.ExceptHandler:
        self.generic_visit(node)
        node.body = [*placed([_word("within")], node.body[0]), *node.body]
        return node

    def visit_Return(self, node: ast.Return) -> Any:
        self.generic_visit(node)
        found = _bound(node.value)
        if found is None:
            return node
        at, value = found
        held = ast.Name(RETURNED, ast.Load())
        return placed([ast.Assign([stored(held)], value), _said([at, held]), ast.Return(held)], node)
