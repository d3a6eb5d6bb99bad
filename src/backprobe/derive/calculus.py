"""Derivatives of formulas, by sympy: the one place that imports it, and only when something is derived.

Trees become sympy objects and come back as trees; no text passes between the two, because sympy runs code from text.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

from backprobe.derive.formula import Unwritten, fits
from backprobe.derive.tree import Apply, Number, Symbol, Tree, apply, expanded, number_of, parts

LONGEST_POWER = 1100  # bits of a power of two numbers: more than a double can hold
LARGEST = 300  # parts of a derivative that is still written out
MODEST = 1_000_000  # constants up to which sympy is asked for a function of one


@lru_cache(2048)
def derivative(tree: Tree, index: int) -> Tree:
    """The derivative of a formula with respect to one of its symbols. Raises Unwritten.

    >>> from backprobe.derive.formula import parse
    >>> derivative(parse("3 * x", [("x", "x")]).tree, 0)
    Number(value=3)
    """
    import sympy

    whole = expanded(tree)
    symbols = {part.index: sympy.Dummy(f"s{part.index}") for part in parts(whole) if isinstance(part, Symbol)}
    try:
        formula = _to_sympy(whole, symbols)
        if formula.has(sympy.zoo, sympy.nan, sympy.oo, -sympy.oo, sympy.I):
            raise Unwritten("it divides by zero or leaves the real numbers, whatever the values")
        found = formula.diff(symbols[index])
        if any(power.exp.free_symbols for power in found.atoms(sympy.Pow)):
            found = sympy.powsimp(found, combine="exp", deep=True)  # x**n * n / x
        result = _from_sympy(found, {symbol: at for at, symbol in symbols.items()})
    except (RecursionError, ArithmeticError):
        raise Unwritten("the expression is too long to be written out") from None
    if sum(1 for _ in parts(result)) > LARGEST:
        raise Unwritten("the derivative is too long to be written out")
    return result


@lru_cache(1)
def _functions() -> dict[str, Any]:
    """The functions that sympy has not, or not as frameworks have them, with the derivative that they have where they
    have one. Each number that comes of it is checked against the recorded one, and at a kink none is used.

    sympy's own Max and Abs would reason about the signs of their arguments, and leave the real numbers with them.
    """
    import sympy

    class Step(sympy.Function):  # type: ignore[misc]
        nargs = 1

    class Sign(sympy.Function):  # type: ignore[misc]
        nargs = 1

    class Sigmoid(sympy.Function):  # type: ignore[misc]
        nargs = 1

        def fdiff(self, argindex: int = 1) -> Any:
            return self * (1 - self)

    class Relu(sympy.Function):  # type: ignore[misc]
        nargs = 1

        def fdiff(self, argindex: int = 1) -> Any:
            return Step(self.args[0])

    class Abs(sympy.Function):  # type: ignore[misc]
        nargs = 1

        def fdiff(self, argindex: int = 1) -> Any:
            return Sign(self.args[0])

    class Maximum(sympy.Function):  # type: ignore[misc]
        nargs = 2

        def fdiff(self, argindex: int = 1) -> Any:
            this, other = self.args if argindex == 1 else reversed(self.args)
            return Step(this - other)

    class Minimum(sympy.Function):  # type: ignore[misc]
        nargs = 2

        def fdiff(self, argindex: int = 1) -> Any:
            this, other = self.args if argindex == 1 else reversed(self.args)
            return Step(other - this)

    own = {made.__name__.lower(): made for made in (Step, Sign, Sigmoid, Relu, Abs, Maximum, Minimum)}
    named = ("exp", "log", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "erf", "sqrt")
    return {**{name: getattr(sympy, name) for name in named}, **own}


def _to_sympy(tree: Tree, symbols: dict[int, Any]) -> Any:
    import sympy

    if isinstance(tree, Symbol):
        return symbols[tree.index]
    if isinstance(tree, Number):
        return sympy.Integer(tree.value) if isinstance(tree.value, int) else sympy.Float(tree.value)
    args = [_to_sympy(arg, symbols) for arg in tree.args]
    match tree.op:
        case "add":
            return sympy.Add(*args)
        case "mul":
            return sympy.Mul(*args)
        case "neg":
            return -args[0]
        case "div":
            return args[0] / args[1]
        case "pow":
            return _power(*args)
    if any(not arg.free_symbols and not (arg.is_Number and -MODEST < arg < MODEST) for arg in args):
        raise Unwritten(f"`{tree.op}` of a constant that is not a plain number")  # sympy may compute forever
    return _functions()[tree.op](*args)


def _power(base: Any, exponent: Any) -> Any:
    """A power, unless it is a number that sympy would write out in millions of digits."""
    if not base.free_symbols and not exponent.free_symbols:
        if not (base.is_Number and exponent.is_Number):
            raise Unwritten("a power of constants that are not plain numbers")
        size = max(abs(math.log2(float(abs(base)))) if base else 0, 1) if abs(base) < 1e300 else 1000
        if abs(exponent) * size > LONGEST_POWER:
            raise Unwritten("a number in it is too large for floating point")
    return base**exponent


def _from_sympy(found: Any, symbols: dict[Any, int]) -> Tree:
    """A sympy object as a tree, in an order that depends on nothing but what it says."""
    import sympy

    if found.is_Symbol:
        return Symbol(symbols[found])
    if found.is_Rational or found.is_Float:
        return _from_number(found)
    if found is sympy.pi or found is sympy.E:
        return Apply("pi" if found is sympy.pi else "e", ())
    if found.is_Add:
        return Apply("add", tuple(_sorted_terms([_from_sympy(term, symbols) for term in found.args])))
    if found.is_Mul:
        return _product(found, symbols)
    if found.is_Pow:
        return _from_power(found, symbols)
    name = type(found).__name__.lower()
    if found.is_Function and _functions().get(name) is type(found):
        return Apply(name, tuple(_from_sympy(arg, symbols) for arg in found.args))
    raise Unwritten(f"its derivative holds {name}, which is not written out")


def _from_number(found: Any) -> Tree:
    above, below = (int(found.p), int(found.q)) if found.is_Rational else (float(found), 1)
    if not (fits(above) and fits(below)):
        raise Unwritten("a number in it is too large for floating point")
    if below == 1:
        return number_of(above)
    over = apply("div", number_of(abs(above)), Number(below))
    return apply("neg", over) if above < 0 else over


def _from_power(found: Any, symbols: dict[Any, int]) -> Tree:
    base, exponent = found.base, found.exp
    if exponent.is_Number and exponent < 0:
        return apply("div", Number(1), _from_sympy(base**-exponent, symbols))
    if exponent.is_Rational and exponent.p == 1 and exponent.q == 2:
        return apply("sqrt", _from_sympy(base, symbols))
    return apply("pow", _from_sympy(base, symbols), _from_sympy(exponent, symbols))


def _product(found: Any, symbols: dict[Any, int]) -> Tree:
    """A product as a sign, what stands above the fraction bar, and what stands below it."""
    above: list[Tree] = []
    below: list[Tree] = []
    negative = False
    for factor in found.args:
        tree = _from_sympy(factor, symbols)
        if isinstance(tree, Apply) and tree.op == "neg":
            negative, tree = not negative, tree.args[0]
        if isinstance(tree, Apply) and tree.op == "div":
            below.append(tree.args[1])
            tree = tree.args[0]
        if tree != Number(1):
            above.append(tree)
    result = _times(above)
    if below:
        result = apply("div", result, _times(below))
    return apply("neg", result) if negative else result


def _times(factors: list[Tree]) -> Tree:
    if not factors:
        return Number(1)
    return factors[0] if len(factors) == 1 else Apply("mul", tuple(sorted(factors, key=_factor_key)))


def _factor_key(tree: Tree) -> tuple[int, str]:
    """Numbers first, then symbols and their powers, then functions, then sums."""
    power = isinstance(tree, Apply) and tree.op == "pow" and _is_constant(tree.args[1])
    base = tree.args[0] if isinstance(tree, Apply) and power else tree
    kind = 0 if _is_constant(tree) else 1 if isinstance(base, Symbol) else 3 if _is(base, "add") else 2
    return kind, repr(base)


def _sorted_terms(terms: list[Tree]) -> list[Tree]:
    """Terms by falling degree, constants last; a sum that would begin with a minus begins with a plus if it can."""
    ordered = sorted(terms, key=lambda term: (-_degree(term), _is_constant(term), repr(_unsigned(term))))
    if _is(ordered[0], "neg"):
        plus = next((term for term in ordered if not _is(term, "neg")), ordered[0])
        ordered.remove(plus)
        ordered.insert(0, plus)
    return ordered


def _degree(tree: Tree) -> float:
    """The degree of a term as a polynomial in its symbols; functions of them count nothing."""
    if isinstance(tree, Symbol):
        return 1
    if not isinstance(tree, Apply):
        return 0
    match tree.op:
        case "neg":
            return _degree(tree.args[0])
        case "mul":
            return sum(map(_degree, tree.args))
        case "div":
            return _degree(tree.args[0]) - _degree(tree.args[1])
        case "pow" if isinstance(tree.args[1], Number):
            return _degree(tree.args[0]) * tree.args[1].value
    return 0


def _is(tree: Tree, op: str) -> bool:
    return isinstance(tree, Apply) and tree.op == op


def _unsigned(tree: Tree) -> Tree:
    return tree.args[0] if isinstance(tree, Apply) and tree.op == "neg" else tree


def _is_constant(tree: Tree) -> bool:
    return not any(isinstance(part, Symbol) for part in parts(tree))
