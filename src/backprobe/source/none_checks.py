"""Finds places where a program reads a value that may be None, and tells uses of the value from tests for None.

``if p.grad is None`` is a test. ``print(u.grad)`` uses the value. ``g = u.grad`` uses it unless ``g``, or a name that
gets its value or a part of it, is tested for None or for truth somewhere in the same function. An expression that
raises an error on None, such as ``u.grad.norm()``, does not count as a use: the error says enough.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from backprobe.source.syntax_nodes import parents

GRADIENT, CLEARING = "grad", "zero_grad"
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
ASKING = ("isinstance", "bool", "is_tensor", "any", "all", "callable")
"""Functions that only tell the kind of their argument. Functions with "none" in their names are treated in the same
way.
"""

HANDING_ON = ("zip", "enumerate", "list", "tuple", "dict", "reversed", "iter", "next")
"""Functions whose result contains their arguments, or items of them."""

PASSING_ON = (
    ast.IfExp,
    ast.Tuple,
    ast.List,
    ast.Set,
    ast.Dict,
    ast.keyword,
    ast.ListComp,
    ast.SetComp,
    ast.GeneratorExp,
    ast.DictComp,
)
"""Expressions whose value contains the values of their parts. It may be bound to a name."""

USING = (ast.Expr, ast.Return, ast.Yield, ast.FormattedValue, ast.Lambda)


@dataclass(frozen=True, eq=False)
class MayBeNone:
    """An expression that may be None and whose value is used. ``given_to`` is the call of which it is an argument, if
    any.
    """

    node: ast.expr
    given_to: ast.Call | None = None

    def parameter(self, function: ast.AST, is_bound: bool) -> str:
        """Return the called function's parameter for this argument; empty if it is not certain."""
        call, own = self.given_to, getattr(function, "args", None)
        if call is None or not isinstance(own, ast.arguments) or any(isinstance(one, ast.Starred) for one in call.args):
            return ""
        names = [one.arg for one in (*own.posonlyargs, *own.args)][is_bound:]
        by_keyword = [word.arg or "" for word in call.keywords if word.value is self.node]
        return next(
            iter([*by_keyword, *(name for name, one in zip(names, call.args, strict=False) if one is self.node)]), ""
        )


def reads(function: ast.AST, candidates: Sequence[ast.expr]) -> list[MayBeNone]:
    """Return the candidates whose value the function uses, so that None would matter."""
    above = parents(function)
    return [MayBeNone(one, _given_to(one, above)) for one in candidates if _is_used(one, above, function)]


def clears(call: ast.Call | None) -> bool:
    """Is it a call of a method ``zero_grad``?"""
    return call is not None and isinstance(call.func, ast.Attribute) and call.func.attr == CLEARING


def checks(function: ast.AST, parameter: str) -> bool:
    """Does the function allow for None in this parameter? It does if it tests the value or a part of it for None or for
    truth, or assigns it to a ``.grad``.
    """
    return _is_checked({parameter}, function)


def _given_to(node: ast.expr, above: Mapping[ast.AST, ast.AST]) -> ast.Call | None:
    around = above.get(node)
    around = above.get(around) if isinstance(around, ast.keyword) else around
    return around if isinstance(around, ast.Call) else None


def _is_used(node: ast.AST, above: Mapping[ast.AST, ast.AST], function: ast.AST) -> bool:
    # Does the function use this value, beyond a test whether it is None?
    around: Any = above.get(node)
    if isinstance(around, PASSING_ON):
        is_asked = isinstance(around, ast.IfExp) and around.test is node
        return not is_asked and _is_used(around, above, function)
    match around:
        case ast.Subscript(value=value):
            return value is node and isinstance(node, ast.Call) and _is_used(around, above, function)
        case ast.Call(func=ast.Name(id=name)) if name in HANDING_ON:
            return _is_used(around, above, function)
        case ast.Call(func=called):
            given = [*around.args, *(word.value for word in around.keywords)]
            return called is not node and not (_asks(called, given) or _is_checked(_owner(called), function))
        case ast.Compare(ops=[ast.Is() | ast.IsNot() | ast.Eq() | ast.NotEq() as operator]):
            is_of_none = any(map(_is_none, (around.left, *around.comparators)))
            is_equality = isinstance(operator, ast.Eq | ast.NotEq)
            return _is_complaint(around, operator, above) if is_of_none else is_equality
        case ast.Assign(targets=targets):
            is_expected = isinstance(node, ast.Call) and not _is_read(targets, function)  # result is never read
            return not is_expected and _is_kept(targets, function)
        case ast.AnnAssign(target=target):
            return _is_kept([target], function)
        case ast.NamedExpr(target=target):
            return _is_kept([target], function) and _is_used(around, above, function)
        case ast.For(target=target) | ast.comprehension(target=target) if around.iter is node:
            return not _is_checked(_names(target), function)
        case ast.Assert():
            return around.msg is node
    return isinstance(around, USING)


def _is_complaint(test: ast.Compare, operator: ast.cmpop, above: Mapping[ast.AST, ast.AST]) -> bool:
    # Does the program say that None is an error there, by ``assert u.grad is not None`` or by a message?
    match above.get(test):
        case ast.Assert(test=asserted):
            return asserted is test and isinstance(operator, ast.IsNot)
        case ast.If(test=asked, body=body):
            return asked is test and isinstance(operator, ast.Is) and all(map(_is_message, body))
    return False


def _is_message(statement: ast.stmt) -> bool:
    match statement:
        case ast.Raise() | ast.Expr(value=ast.Call(func=ast.Name(id="print"))):
            return True
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr=name))):
            return name in ("warn", "warning", "error", "critical")
    return False


def _is_kept(targets: Sequence[ast.expr], function: ast.AST) -> bool:
    # Is the assigned value used? Not if the function tests it for None, or assigns it to another gradient.
    is_copied = any(_is_gradient(part) for target in targets for part in ast.walk(target))
    names = {name for target in targets for name in _names(target)}
    return not is_copied and not _is_checked(names, function)


def _is_read(targets: Sequence[ast.expr], function: ast.AST) -> bool:
    # Does the function read the assigned name? If the target is an attribute or item, it may be read elsewhere.
    names = {name for target in targets for name in _names(target)}
    loads = (node for node in ast.walk(function) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load))
    return not all(name.isidentifier() for name in names) or any(load.id in names for load in loads)


def _is_gradient(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == GRADIENT


def _is_none(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _asks(called: ast.expr, given: Sequence[ast.expr]) -> bool:
    # Does the call only test a value? Examples are ``isinstance(p.grad, Tensor)``, ``self.assertIsNone(p.grad)`` and
    # ``self.assertEqual(p.grad, None)``.
    name = called.attr if isinstance(called, ast.Attribute) else called.id if isinstance(called, ast.Name) else ""
    return name in ASKING or "none" in name.lower() or any(map(_is_none, given))


def _owner(called: ast.expr) -> set[str]:
    # Return the name of the object whose method is called. The object may contain the argument afterwards: ``grads`` in
    # ``grads.append(p.grad)``.
    return _names(called.value) if isinstance(called, ast.Attribute) else set()


def _names(target: ast.AST) -> set[str]:
    # Return the names in a target. For an item this is the name of its container: ``found`` for ``found[k]``.
    match target:
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            return {name for part in parts for name in _names(part)}
        case ast.Starred(value=inner) | ast.Subscript(value=inner):
            return _names(inner)
        case ast.Name() | ast.Attribute():
            return {ast.unparse(target)}
    return set()


def _is_checked(names: set[str], function: ast.AST) -> bool:
    # Does the function test the value of one of these names, or a part of the value, for None (see ``_asked``)?
    nodes = [*ast.walk(function)]
    while names:
        more = {name for node in nodes for name in _taken(node, names)} - names
        if not more:
            break
        names = names | more
    return bool(names) and any(_mentions(asked, names) for node in nodes for asked in _asked(node))


def _taken(node: ast.AST, names: set[str]) -> set[str]:
    # Return the names that a node binds to the same values: loop variables over these names, and further names for
    # them.
    match node:
        case ast.For(target=target, iter=given) | ast.comprehension(target=target, iter=given):
            return _names(target) if _mentions(given, names) else set()
        case ast.Assign(targets=targets, value=ast.Name() | ast.Attribute() | ast.Subscript() as value):
            return {name for target in targets for name in _names(target)} if _mentions(value, names) else set()
    return set()


def _asked(node: ast.AST) -> Iterator[ast.AST]:
    # Yield the parts of a node that are tested for None or for truth, and those that are assigned to another gradient.
    match node:
        case ast.Compare(left=left, comparators=others) if any(map(_is_none, (left, *others))):
            yield from (left, *others)
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test) | ast.Assert(test=test):
            yield from _plain([test])
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield from _plain([operand])
        case ast.BoolOp(values=values):
            yield from _plain(values)
        case ast.comprehension(ifs=tests):
            yield from _plain(tests)
        case ast.Call(func=called, args=args) if _asks(called, args):
            yield from args
        case ast.Assign(targets=[ast.Attribute(attr="grad")], value=value):
            yield value


def _plain(tests: Sequence[ast.expr]) -> Iterator[ast.AST]:
    # Yield the tests of a value itself. Tests of something that is computed from the value are left out.
    return (test for test in tests if isinstance(test, ast.Name | ast.Attribute | ast.Subscript))


def _mentions(node: ast.AST, names: set[str]) -> bool:
    return any(isinstance(part, ast.Name | ast.Attribute) and ast.unparse(part) in names for part in ast.walk(node))
