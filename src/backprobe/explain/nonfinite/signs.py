"""Is a term never below 0, whatever it is computed from? A divisor is clamped from below only where that is certain.

Of numbers that were recorded once it is not known: the next ones may lie on the other side of 0, and a clamp would
replace them.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

import numpy

from backprobe.explain.nonfinite.formulas import TRANSPARENT, TermOf
from backprobe.explain.nonfinite.terms import Term, known_as
from backprobe.source.sites import operation as operation_of

ALWAYS = frozenset({
    "abs", "norm", "std", "var", "square", "exp", "exp2", "sqrt", "sigmoid", "softmax", "softplus", "relu", "cosh",
    "squared_difference", "hypot", "cdist", "len", "gt", "ge", "lt", "le", "eq", "ne", "invert", "and", "or", "isnan",
    "isfinite", "isinf", "count_nonzero", "numel",
})  # fmt: skip
FROM_OTHERS = frozenset({
    "add", "mul", "div", "sum", "mean", "prod", "max", "amax", "min", "amin", "cumsum", "cumprod", "expand",
    "expand_as", "broadcast_to", "tile", "where", "matmul",
}) | TRANSPARENT  # fmt: skip
"""Operations that give nothing below 0 of what is not below 0."""
DEEP = 24  # terms within terms


class Signs:
    """What is known of the signs of one record's terms. What is trained keeps none."""

    def __init__(self, term_of: TermOf, value: Callable[[Term], Any], is_trained: Callable[[int], bool]) -> None:
        self._term_of, self._value, self._is_trained = term_of, value, is_trained

    def is_never_negative(self, term: Term, deep: int = DEEP) -> bool:
        held = term.at
        if not term.op and held is not None and self._term_of(held) is not term and deep:
            computed = self._term_of(held)
            if computed.op:
                return self.is_never_negative(computed, deep - 1)
        if not term.op:
            return self._is_number(term)
        op, args = known_as(term.op), term.args
        if op in ALWAYS or (op in ("mul", "pow") and self._is_square(op, args)):
            return True
        if op == "clamp" and (len(args) > 1 or "min" in term.keywords):
            return self._is_number(args[1] if len(args) > 1 else term.keywords["min"])
        operands = args[1:] if op == "where" else args[:2] if op in ("add", "mul", "div", "matmul") else args[:1]
        return op in FROM_OTHERS and bool(operands) and bool(deep) and all(
            self.is_never_negative(one, deep - 1) for one in operands
        )  # fmt: skip

    def _is_number(self, leaf: Term) -> bool:
        # A constant that is not below 0, a mask, or a count.
        value = self._value(leaf)
        if value is None or isinstance(value, str | tuple | slice):
            return False
        array = numpy.asarray(value)
        if leaf.is_constant or array.dtype.kind in "bu":
            return array.dtype.kind in "biuf" and bool((array >= 0).all())
        if leaf.at is not None and self._is_trained(leaf.at):
            return False
        is_mask = array.dtype.kind in "if" and array.size > 1 and bool(numpy.isin(array, (0, 1)).all())
        return is_mask and bool(array.any())  # what is 0 everywhere may be anything

    def _is_square(self, op: str, args: tuple[Term, ...]) -> bool:
        if len(args) != 2:
            return False
        if op == "pow":
            exponent = self._value(args[1])
            return args[1].is_constant and isinstance(exponent, int | float) and exponent % 2 == 0
        one, other = args
        return bool(one.text) and one.text == other.text and one.at == other.at


def clamps_divisor(instead: ast.expr) -> bool:
    """Does a formula hold its divisor above 0, so that it takes one that is never below?

    >>> clamps_divisor(ast.parse("a / maximum(b, tiny)", mode="eval").body)
    True
    """
    match instead:
        case ast.BinOp(op=ast.Div(), right=ast.Call() as divisor):
            return operation_of(divisor) == "maximum"
    return False
