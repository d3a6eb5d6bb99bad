"""Sites are places in the source that bind a value or make a call: name, line, and the expression of the value."""

from __future__ import annotations

import ast
import copy
import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

OPERATORS = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.Div: "div",
    ast.FloorDiv: "floordiv",
    ast.Mod: "mod",
    ast.Pow: "pow",
    ast.MatMult: "matmul",
    ast.LShift: "lshift",
    ast.RShift: "rshift",
    ast.BitAnd: "and",
    ast.BitOr: "or",
    ast.BitXor: "xor",
    ast.USub: "neg",
    ast.UAdd: "pos",
    ast.Invert: "invert",
    ast.Not: "not",
    ast.Eq: "eq",
    ast.NotEq: "ne",
    ast.Lt: "lt",
    ast.LtE: "le",
    ast.Gt: "gt",
    ast.GtE: "ge",
}

OPERATOR_FUNCTIONS = {
    "div": operator.truediv,
    "idiv": operator.itruediv,
    "and": operator.and_,
    "or": operator.or_,
    "iand": operator.iand,
    "ior": operator.ior,
}
"""The operators that have another name in Python's ``operator`` module."""


@dataclass(frozen=True)
class Origin:
    """The expression that computes a value: its outermost operation, the names in it, and its text."""

    op: str = ""
    reads: tuple[str, ...] = ()
    expression: str = ""
    elements: tuple[tuple[str, Origin], ...] = ()  # for a literal container: its elements, by position or key
    joined: tuple[
        str, ...
    ] = ()  # names of containers whose items the value contains, such as lists ``a`` and ``b`` in ``a + b``

    @classmethod
    def of(cls, expression: ast.expr) -> Origin:
        elements = tuple((key, cls.of(element)) for key, element in _written_out(expression))
        return cls(operation(expression), names_read(expression), ast.unparse(expression), elements, joined(expression))

    @classmethod
    def of_turn(cls, iterable: ast.expr) -> Origin:
        """Return the origin of a variable that iterates over ``iterable``, with the origins of its parts if the text
        shows them.

        >>> origin = Origin.of_turn(ast.parse("zip(weights, gradients)", mode="eval").body)
        >>> origin.at(".0").reads, origin.at(".1").reads
        (('weights',), ('gradients',))
        """
        given = names_read(_handed_out(iterable))
        return cls(reads=names_read(iterable), elements=tuple(_parts_of_turn(iterable)), joined=given)

    def at(self, leaf: str) -> Origin:
        """Return the origin of the part of the value at a leaf such as ``.0.1``. The part may have no expression of its
        own.
        """
        part = self
        for step in leaf.split(".")[1:]:
            known = dict(part.elements)
            if step not in known:
                if not self.expression:
                    return Origin(self.op, self.reads, joined=self.joined)
                unchanged = self.joined if part is self else ()
                return Origin(self.op, tuple(name for name in self.reads if name not in unchanged))
            part = known[step]
        return part


def _written_out(expression: ast.expr) -> Sequence[tuple[str, ast.expr]]:
    # Return the elements of a literal tuple, list or dict, by position or key. Empty if the text does not show them.
    match expression:
        case ast.Tuple(elts=written) | ast.List(elts=written):
            is_known = not any(isinstance(element, ast.Starred) for element in written)
            return [(str(at), element) for at, element in enumerate(written)] if is_known else ()
        case ast.Dict(keys=keys, values=values):
            named = [key.value if isinstance(key, ast.Constant) else None for key in keys]
            is_known = all(isinstance(name, str | int) for name in named) and len({*map(str, named)}) == len(named)
            return [(str(name), value) for name, value in zip(named, values, strict=True)] if is_known else ()
        case ast.Call(func=ast.Name(id="dict"), args=[], keywords=words):
            is_known = all(word.arg is not None for word in words)
            return [(str(word.arg), word.value) for word in words] if is_known else ()
    return ()


def _handed_out(iterable: ast.expr) -> ast.AST:
    # Return the container whose items a loop iterates over unchanged; an empty statement if the text shows none.
    match iterable:
        case ast.Name() | ast.Attribute():
            return iterable
        case ast.Subscript(value=ast.Name() | ast.Attribute() as held):
            return held
        case ast.Call(func=ast.Attribute(value=ast.Name() | ast.Attribute() as held, attr="values"), args=[]):
            return held
        case ast.Call(func=ast.Name(id="reversed" | "list" | "tuple" | "iter"), args=[held], keywords=[]):
            return _handed_out(held)
    return ast.Pass()


def _parts_of_turn(iterable: ast.expr) -> Sequence[tuple[str, Origin]]:
    # Return the expressions that ``zip``, ``enumerate`` or ``items()`` combine in each iteration, by position.
    match iterable:
        case ast.Call(func=ast.Name(id="zip"), args=args) if not any(isinstance(one, ast.Starred) for one in args):
            return [(str(at), Origin.of_turn(one)) for at, one in enumerate(args)]
        case ast.Call(func=ast.Name(id="enumerate"), args=[counted, *_]):
            return [("0", Origin()), ("1", Origin.of_turn(counted))]
        case ast.Call(func=ast.Attribute(value=held, attr="items"), args=[], keywords=[]):
            return [("0", Origin()), ("1", Origin(reads=names_read(held), joined=names_read(held)))]
    return ()


@dataclass(frozen=True)
class Site:
    """One place in the source that binds a value: its local name, line and text, and the origin of the value.

    ``local`` is empty for a statement that binds nothing. If the statement has several lines, ``below`` are the lines
    after the first.
    """

    local: str
    line: int
    text: str
    origin: Origin = Origin()
    below: tuple[str, ...] = ()

    @property
    def op(self) -> str:
        return self.origin.op

    @property
    def reads(self) -> tuple[str, ...]:
        return self.origin.reads

    @property
    def is_head(self) -> bool:
        """Is the site the head of a function definition, which binds arguments?"""
        return not self.origin.expression and self.text.startswith(("def ", "async def "))


@dataclass(frozen=True)
class CallSite(Site):
    """One place in the source that makes a call, or applies an operator.

    ``local`` is the name that the statement binds; it may be empty. ``spelled`` is the source text of the function, or
    the name of the operator. ``arguments`` are the texts of the arguments by position or keyword, as far as the source
    shows them.
    """

    spelled: str = ""
    arguments: tuple[tuple[str, str], ...] = ()


def operator_of(site: CallSite) -> Callable[..., Any]:
    """Return the function that computes the same as an operator."""
    found: Callable[..., Any] = OPERATOR_FUNCTIONS.get(site.spelled) or getattr(operator, site.spelled)
    return found


def binding_of(statement: ast.AST) -> str:
    """Return the target of an assignment as text, and ``return`` for a return. Empty for other statements, and for
    several targets.
    """
    match statement:
        case ast.Assign(targets=[target]) | ast.AugAssign(target=target) | ast.AnnAssign(target=target):
            return "" if isinstance(target, ast.Tuple | ast.List) else ast.unparse(target)
        case ast.Return():
            return "return"
    return ""


def lines_of(node: Any, lines: Sequence[str]) -> tuple[str, ...]:
    """Return the lines of a statement, or of the head of a compound statement. The first line is stripped for
    display.
    """
    first, last = node.lineno, node.end_lineno
    body = getattr(node, "body", None)
    if isinstance(body, list):
        inner = min([body[0].lineno, *(one.lineno for one in getattr(body[0], "decorator_list", ()))])
        last = max(first, inner - 1)
    elif isinstance(node, ast.Match):
        last = node.subject.end_lineno
    own = [line.rstrip() for line in lines[first - 1 : last]]
    # Leave out blank lines and comments at the end, which may separate a head from its body.
    while len(own) > 1 and not own[-1].partition("#")[0].strip():
        own.pop()
    return (own[0].strip(), *own[1:]) if own else ("",)


def operation(expression: ast.AST | None) -> str:
    """Return the name of the outermost operation of an expression: that of the called function, or of the operator,
    such as ``add``. Empty if there is none, as for a plain name.
    """
    match expression:
        case ast.BinOp(op=op) | ast.UnaryOp(op=op):
            return OPERATORS[type(op)]
        case ast.Compare(ops=[op]):
            return OPERATORS.get(type(op), "")
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
            return name
        case ast.Call():
            return "call"
        case ast.Subscript():
            return "getitem"
        case ast.Await(value=value):
            return operation(value)
    return ""


def names_read(expression: ast.AST) -> tuple[str, ...]:
    """Return the variables that an expression reads, and their attributes and items, written like locals."""
    found: dict[str, None] = {}
    for part in ast.walk(expression):
        match part:
            case ast.Name(id=name):
                found[name] = None
            case ast.Attribute(value=ast.Name(id=name), attr=attribute):
                found[f"{name}.{attribute}"] = None
            case ast.Subscript(value=ast.Name()):
                found[ast.unparse(part)] = None
    return tuple(found)


def joined(expression: ast.expr) -> tuple[str, ...]:
    """Return the names of lists and dicts that an expression only concatenates or merges, so their items stay the same.

    >>> joined(ast.parse("xs + [f(ys[0]), *zs] + ys", mode="eval").body)
    ('xs', 'zs')
    >>> joined(ast.parse("{**given, 'b': f(x)} | more", mode="eval").body)
    ('given', 'more')
    """
    parts = [*_joined(expression)]
    whole = [part for part in parts if isinstance(part, ast.Name | ast.Attribute) and part is not expression]
    computed = {name for part in parts if part not in whole for name in names_read(part)}
    return tuple(name for part in whole for name in names_read(part) if name not in computed)


def _joined(expression: ast.expr) -> Iterator[ast.expr]:
    # Yield the parts that are concatenated: containers with a name, literals, whose elements are new, and other
    # expressions.
    match expression:
        case ast.BinOp(left=left, op=ast.Add() | ast.BitOr(), right=right):
            yield from (*_joined(left), *_joined(right))
        case ast.List(elts=elements) | ast.Tuple(elts=elements):
            for one in elements:
                yield from _joined(one.value) if isinstance(one, ast.Starred) else [ast.Tuple([one])]
        case ast.Dict(keys=keys, values=values):
            for key, one in zip(keys, values, strict=True):
                yield from _joined(one) if key is None else [ast.Tuple([key, one])]
        case _:
            yield expression


def captured(pattern: ast.pattern) -> list[str]:
    """Return the names that a pattern binds."""
    names = [getattr(part, "rest", None) or getattr(part, "name", None) for part in ast.walk(pattern)]
    return [name for name in names if name is not None]


def parameters(arguments: ast.arguments) -> list[ast.arg]:
    """Return the parameters of a function, in the order of the text."""
    every = [*arguments.posonlyargs, *arguments.args, arguments.vararg, *arguments.kwonlyargs, arguments.kwarg]
    return [argument for argument in every if argument is not None]


def augmented(node: ast.AugAssign) -> Origin:
    """Return the origin of ``u`` after ``u += b``: the expression ``u + b``."""
    place = copy.copy(node.target)
    place.ctx = ast.Load()
    reads = (*names_read(node.value), *names_read(node.target))
    whole = ast.BinOp(place, node.op, node.value)
    return Origin(OPERATORS[type(node.op)], reads, ast.unparse(whole), joined=joined(whole))
