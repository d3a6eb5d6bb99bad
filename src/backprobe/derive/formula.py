"""Parses formulas from the text of expressions, with a whitelist of syntax. The text is never evaluated."""

from __future__ import annotations

import ast
import sys
import warnings
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from backprobe.derive.tree import ARITHMETIC, DEFINED, PRIMITIVE, Apply, Symbol, Tree, number_of, subtract
from backprobe.findings.phrasing import shorten
from backprobe.record.names import quote
from backprobe.source.sites import OPERATORS

LONGEST = 4000  # characters; a longer expression is not parsed
LARGEST = 200  # nodes of the syntax tree; a larger formula is unreadable, and sympy becomes slow
DEEPEST = 40  # nesting depth, far below Python's recursion limit

# libraries whose functions have formulas
LIBRARIES = ("torch", "math", "builtins", "numpy", "jax", "tensorflow", "keras")
ALSO = {
    "arcsin": "asin",
    "arccos": "acos",
    "arctan": "atan",
    "absolute": "abs",
    "negative": "neg",
    "multiply": "mul",
    "subtract": "sub",
    "divide": "div",
    "true_divide": "div",
    "power": "pow",
}
"""Other frameworks' names of the same functions, with the name used here."""

OPERANDS = {**ARITHMETIC, **PRIMITIVE, **dict.fromkeys(DEFINED, 1)}
HARMLESS: Mapping[str, tuple[object, ...]] = {
    "inplace": (True, False),
    "out": (None,),
    "alpha": (1,),
    "approximate": ("none", False),
    "rounding_mode": (None,),
}
"""Keyword arguments with values that do not change the result."""


Mention: TypeAlias = tuple[str, int]
"""The spelling of a value in the source, and the position of its entry."""


class Unwritten(Exception):
    """Raised if there is no formula; the argument is the reason in words. The exception never leaves this package."""


@dataclass(frozen=True)
class Formula:
    """The formula of an expression, and for each symbol the position of its entry."""

    tree: Tree
    symbols: tuple[int, ...]


def parse(
    expression: str, reads: Iterable[Mention], members: Iterable[Mention] = (), calls: Sequence[str] = ()
) -> Formula:
    """Parse an expression into a formula. ``reads`` are the recorded values that it mentions, as it spells them.

    ``members`` are parameters and return values of modules that flow into the expression, by their paths.
    ``self.scale`` in the text is the member whose path ends in ``scale``, and ``self.norm(x)`` the one whose path ends
    in ``norm``. ``calls`` are the functions that were really called, as in ``Source.calls``: they resolve names in the
    text. Raises Unwritten.

    >>> parse("2 * x + b", [("x", 3), ("b", 0)]).symbols
    (3, 0)
    """
    node = _syntax(expression)
    builder = _Builder(node, list(reads), list(members), calls)
    tree = builder.build(node)
    if not builder.symbols:
        raise Unwritten(f"{_shown(node)} mentions no recorded value")
    return Formula(tree, tuple(builder.symbols))


def _syntax(expression: str) -> ast.expr:
    if len(expression) > LONGEST:
        raise Unwritten("the expression is too long to be written out")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the same warnings were issued when Python compiled the program
            node = ast.parse(expression, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise Unwritten("the expression cannot be read") from None
    level: list[ast.AST] = [node]
    count = depth = 0
    while level:
        count, depth = count + len(level), depth + 1
        # three nodes per operation, because its operator and context are nodes too
        if count > LARGEST * 3 or depth > DEEPEST:
            raise Unwritten("the expression is too long to be written out")
        level = [child for parent in level for child in ast.iter_child_nodes(parent)]
    return node


class _Builder:
    # Builds the formula of one expression.
    def __init__(
        self, node: ast.expr, reads: Sequence[Mention], members: Sequence[Mention], calls: Sequence[str]
    ) -> None:
        self.known: dict[str, list[int]] = defaultdict(list)
        for spelled, at in reads:
            self.known[spelled].append(at)
        self.members = members
        self.symbols: dict[int, int] = {}  # from the position of an entry to the index of its symbol
        made = list(_as_called(node))
        if len(calls) != len(made):
            raise Unwritten(f"which functions {_shown(node)} called is not recorded")
        self.origins = dict(zip(made, calls, strict=True))
        self.calls = [part for part in _in_order(node) if isinstance(part, ast.Call)]
        followed = [call for call in self.calls if not self.origins[call]]
        results = [mention for mention in reads if "()" in mention[0]]
        in_turn = len(results) == len(followed) and all(spelled.endswith("()") for spelled, _ in results)
        self.results = {call: at for call, (_, at) in zip(followed, results, strict=True)} if in_turn else {}

    def build(self, node: ast.expr) -> Tree:
        at = self.recorded(node)
        if at is not None:
            return Symbol(self.symbols.setdefault(at, len(self.symbols)))
        match node:
            case ast.UnaryOp(op=ast.UAdd(), operand=inside) | ast.NamedExpr(target=inside):
                return self.build(inside)
            case ast.Constant(value=value):
                return _number(value, node)
            case ast.BinOp(left=left, op=operator, right=right):
                return self.applied(node, OPERATORS[type(operator)], [left, right])
            case ast.UnaryOp(op=sign, operand=operand):
                return self.applied(node, OPERATORS[type(sign)], [operand])
            case ast.Call():
                return self.call(node)
            case ast.Name() | ast.Attribute():
                raise Unwritten(f"{_shown(node)} is not recorded")
        raise Unwritten(f"{_shown(node)} is not arithmetic")

    def applied(
        self, node: ast.expr, function: str, operands: Sequence[ast.expr], keywords: Sequence[ast.keyword] = ()
    ) -> Tree:
        # Build an operator or a known function with some operands. Raises Unwritten for any other call.
        if function == "matmul":
            raise Unwritten("matmul is not elementwise")
        if function not in OPERANDS:
            raise Unwritten(f"{_shown(node)} is not arithmetic")
        plain = not any(isinstance(operand, ast.Starred) for operand in operands)
        if not plain or len(operands) != OPERANDS[function] or not all(map(_is_harmless, keywords)):
            raise Unwritten(f"{_shown(node)} is called in a way that has no formula")
        args = [self.build(operand) for operand in operands]
        return subtract(*args) if function == "sub" else Apply(function, tuple(args))

    def recorded(self, node: ast.expr) -> int | None:
        # The position of the recorded entry that a part of the expression refers to, or None.
        if isinstance(node, ast.Subscript) and len(set(self.known.get(ast.unparse(node), []))) == 1:
            return self.known[ast.unparse(node)][0]
        spelled = self.spelled(node)
        if spelled is None:
            return None
        base, leaf = spelled
        if isinstance(base, ast.Call):
            return self.returned(base, leaf)
        text = ast.unparse(base) + leaf
        found = list(dict.fromkeys(self.known.get(text, [])))
        return found[0] if len(found) == 1 else None if found else self.member(text)

    def member(self, text: str) -> int | None:
        # Return the parameter or module result that ``self.h.scale`` refers to: the only member whose path ends in
        # ``h.scale``. None if there is not exactly one.
        owner, _, path = text.partition(".")
        found = {at for member, at in self.members if f".{member}".endswith(f".{path}")}
        return found.pop() if owner == "self" and path and len(found) == 1 else None

    def spelled(self, node: ast.expr) -> tuple[ast.expr, str] | None:
        # Split a part into a variable, attribute or call, and the path of a leaf: ``pair[0]`` is the leaf ``.0`` of
        # ``pair``. None for any other expression.
        match node:
            case ast.Name() | ast.Attribute(value=ast.Name()) | ast.Call():
                return node, ""
            case ast.Attribute(value=ast.Attribute()) if ast.unparse(node).startswith("self."):
                return node, ""
            case ast.Subscript(value=value, slice=ast.Constant(value=int() | str() as key)):
                inside = self.spelled(value)
                return inside and (inside[0], f"{inside[1]}.{quote(str(key))}")
        return None

    def returned(self, call: ast.Call, leaf: str) -> int | None:
        # Return the recorded result of a call of a followed function or module; None if there is none. Results are
        # recorded in the order of the calls.
        if call in self.results and not leaf:
            return self.results[call]
        name = _last_name(call)
        found = self.known.get(f"{quote(name)}(){leaf}", [])
        alike = [each for each in self.calls if _last_name(each) == name]
        if len(found) == len(alike):
            return found[alike.index(call)]
        if found:
            raise Unwritten(f"which call of `{name}` returned which value is not recorded")
        return self.member(ast.unparse(call.func)) if len(alike) == 1 and not leaf else None

    def call(self, node: ast.Call) -> Tree:
        library, _, own = self.origins[node].rpartition(".")
        function = ALSO.get(own, own) if library in LIBRARIES else ""
        result = f"{quote(_last_name(node))}()"
        if not self.origins[node] or any(spelled.startswith(result) for spelled in self.known):
            raise Unwritten(f"`{_last_name(node)}` is a function of yours, and what this call returned is not recorded")
        return self.applied(node, function, [*self.owner(node.func), *node.args], node.keywords)

    def owner(self, function: ast.expr) -> list[ast.expr]:
        # Return the object whose method is called; nothing for a function of a library or module, such as
        # ``torch.exp``.
        if not isinstance(function, ast.Attribute):
            return []
        owner = function.value
        is_dotted = all(isinstance(part, ast.Name | ast.Attribute | ast.Load) for part in ast.walk(owner))
        return [] if is_dotted and self.recorded(owner) is None else [owner]


def _as_called(node: ast.AST) -> Iterator[ast.Call]:
    # Yield all calls in the order in which Python evaluates the called expressions: a function before its arguments.
    if isinstance(node, ast.Call):
        yield from _as_called(node.func)
        yield node
        rest: list[ast.AST] = [*node.args, *node.keywords]
    else:
        rest = list(ast.iter_child_nodes(node))
    for part in rest:
        yield from _as_called(part)


def _in_order(node: ast.AST) -> Iterator[ast.AST]:
    # Yield the parts of an expression in the order in which Python finishes evaluating them.
    for child in ast.iter_child_nodes(node):
        yield from _in_order(child)
    yield node


def _last_name(call: ast.Call) -> str:
    return str(getattr(call.func, "attr", getattr(call.func, "id", "")))


def _is_harmless(keyword: ast.keyword) -> bool:
    values = HARMLESS.get(keyword.arg or "", ())
    return isinstance(keyword.value, ast.Constant) and keyword.value.value in values


def _number(value: object, node: ast.expr) -> Tree:
    if type(value) not in (int, float):
        raise Unwritten(f"{_shown(node)} is not a real number")
    assert isinstance(value, int | float)
    if not fits(value):
        raise Unwritten("a number in it is too large for floating point")
    return number_of(value)


def fits(value: int | float) -> bool:
    """Can a double hold the number?"""
    return abs(value) <= sys.float_info.max


def _shown(node: ast.expr) -> str:
    try:
        text = ast.unparse(node)
    except ValueError:  # the integer has thousands of digits
        return "the expression"
    return f"`{shorten(text)}`"
