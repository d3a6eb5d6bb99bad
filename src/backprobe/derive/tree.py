"""A formula as plain data: numbers, symbols, and operations applied to them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True)
class Number:
    """An exact integer, or a float with its value as written."""

    value: int | float


@dataclass(frozen=True)
class Symbol:
    """The n-th distinct value that a formula mentions. A formula does not know the names of its symbols."""

    index: int


@dataclass(frozen=True)
class Leaf:
    """A text that is shown inside a formula: a ``name``, a recorded ``number``, or a ``word``."""

    kind: str
    text: str


@dataclass(frozen=True)
class Apply:
    """An operation (``add``, ``mul``, ``neg``, ``div``, ``pow``) or a named function, and its arguments.

    The parts of a derivation's text are operations too, such as ``partial`` of two names, or ``chain`` of factors.
    """

    op: str
    args: tuple[Tree, ...]


Tree: TypeAlias = Number | Symbol | Leaf | Apply

ARITHMETIC = {"add": 2, "sub": 2, "mul": 2, "div": 2, "pow": 2, "neg": 1}
KINKED = {"relu": 1, "abs": 1, "maximum": 2, "minimum": 2}
IN_SYMPY = ("exp", "log", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "erf", "sqrt")
"""Functions of one number that sympy has under the same name."""

PRIMITIVE = {**dict.fromkeys((*IN_SYMPY, "sigmoid"), 1), **KINKED}
"""The number of operands of each basic function. Basic functions are not defined by other functions."""


def apply(op: str, *args: Tree) -> Tree:
    return Apply(op, args)


def subtract(left: Tree, right: Tree) -> Tree:
    return apply("add", left, apply("neg", right))


ONE, TWO, ROOT = Number(1), Number(2), Apply("sqrt", (Number(2),))
DEFINED: Mapping[str, Callable[[Tree], Tree]] = {
    "log2": lambda x: apply("div", apply("log", x), apply("log", TWO)),
    "log10": lambda x: apply("div", apply("log", x), apply("log", Number(10))),
    "log1p": lambda x: apply("log", apply("add", ONE, x)),
    "expm1": lambda x: subtract(apply("exp", x), ONE),
    "softplus": lambda x: apply("log", apply("add", ONE, apply("exp", x))),
    "silu": lambda x: apply("mul", x, apply("sigmoid", x)),
    "gelu": lambda x: apply("mul", x, apply("div", apply("add", ONE, apply("erf", apply("div", x, ROOT))), TWO)),
    "rsqrt": lambda x: apply("div", ONE, apply("sqrt", x)),
    "square": lambda x: apply("pow", x, TWO),
    "reciprocal": lambda x: apply("div", ONE, x),
}
"""Functions that are shown by name and defined by other functions. GELU is the exact one, with the error function."""


def expanded(tree: Tree) -> Tree:
    """Replace every defined function in a tree by its definition."""
    if not isinstance(tree, Apply):
        return tree
    args = tuple(map(expanded, tree.args))
    return expanded(DEFINED[tree.op](*args)) if tree.op in DEFINED else Apply(tree.op, args)


def named(tree: Tree, names: Sequence[str]) -> Tree:
    """Replace the symbols of a tree by these names."""
    if isinstance(tree, Apply):
        return Apply(tree.op, tuple(named(arg, names) for arg in tree.args))
    return Leaf("name", names[tree.index]) if isinstance(tree, Symbol) else tree


def parts(tree: Tree) -> Iterator[Tree]:
    """Yield the tree and all of its parts."""
    pending = [tree]
    while pending:
        part = pending.pop()
        yield part
        if isinstance(part, Apply):
            pending += part.args


def number_of(value: int | float) -> Tree:
    """Return a number as a tree. A negative number becomes a negation, and a float without decimals an integer."""
    if value < 0:
        return apply("neg", number_of(-value))
    if isinstance(value, float) and value.is_integer() and value < 2**53:
        return Number(int(value))
    return Number(value)
