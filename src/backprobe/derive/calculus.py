"""Derivatives of formulas by sympy. Only this module uses sympy, and it is imported only when needed.

Formulas are converted to sympy objects and back as trees, never as text, because sympy executes code from text.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import sympy

from backprobe.derive.formula import Unwritten, fits
from backprobe.derive.tree import ARITHMETIC, IN_SYMPY, Apply, Number, Symbol, Tree, apply, expanded, number_of, parts

# the most bits of a power of constants that is still computed; a larger one would not fit into a double
LONGEST_POWER = 1100
LARGEST = 300  # nodes of a derivative; a larger one is not written out
MODEST = 1_000_000  # sympy evaluates a function of a constant only if the constant is at most this large
CONSTANTS = {sympy.pi: Apply("pi", ()), sympy.E: Apply("e", ())}


@lru_cache(2048)
def derivative(tree: Tree, index: int) -> Tree:
    """Return the derivative of a formula with respect to one of its symbols. Raises Unwritten.

    >>> from backprobe.derive.formula import parse
    >>> derivative(parse("3 * x", [("x", 0)]).tree, 0)
    Number(value=3)
    """
    whole = expanded(tree)
    symbols = {part.index: sympy.Dummy(f"s{part.index}") for part in parts(whole) if isinstance(part, Symbol)}
    try:
        formula = _to_sympy(whole, symbols)
        if formula.has(sympy.zoo, sympy.nan, sympy.oo, -sympy.oo, sympy.I):
            raise Unwritten("it divides by zero or leaves the real numbers, whatever the values")
        found = formula.diff(symbols[index])
        if any(power.exp.free_symbols for power in found.atoms(sympy.Pow)):
            found = sympy.powsimp(found, combine="exp", deep=True)  # simplifies terms such as x**n * n / x
        result = _from_sympy(found, {symbol: at for at, symbol in symbols.items()})
    except (RecursionError, ArithmeticError):
        raise Unwritten("the expression is too long to be written out") from None
    if sum(1 for _ in parts(result)) > LARGEST:
        raise Unwritten("the derivative is too long to be written out")
    return result


def _power(base: Any, exponent: Any) -> Any:
    # Return a power. Raises Unwritten if sympy would compute a number with millions of digits, and for constants that
    # are not plain numbers.
    if not base.free_symbols and not exponent.free_symbols:
        if not (base.is_Number and exponent.is_Number):
            raise Unwritten("a power of constants that are not plain numbers")
        size = max(abs(math.log2(float(abs(base)))) if base else 0, 1) if abs(base) < 1e300 else 1000
        if abs(exponent) * size > LONGEST_POWER:
            raise Unwritten("a number in it is too large for floating point")
    return base**exponent


def _function(name: str, *slopes: Callable[..., Any]) -> Any:
    # Return a sympy function with the given derivatives, for functions that sympy lacks or defines otherwise. For
    # example, sympy's own Max and Abs examine the signs of their arguments and may introduce complex numbers.
    return type(name, (sympy.Function,), {"fdiff": lambda self, at=1: slopes[at - 1](self, *self.args)})


STEP, SIGN = _function("step"), _function("sign")
FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    **{name: getattr(sympy, name) for name in IN_SYMPY},
    "add": sympy.Add,
    "mul": sympy.Mul,
    "neg": operator.neg,
    "div": operator.truediv,
    "pow": _power,
    "step": STEP,
    "sign": SIGN,
    "sigmoid": _function("sigmoid", lambda own, x: own * (1 - own)),
    "relu": _function("relu", lambda own, x: STEP(x)),
    "abs": _function("abs", lambda own, x: SIGN(x)),
    "maximum": _function("maximum", lambda own, x, y: STEP(x - y), lambda own, x, y: STEP(y - x)),
    "minimum": _function("minimum", lambda own, x, y: STEP(y - x), lambda own, x, y: STEP(x - y)),
}
"""The sympy form of each operation. Its derivative is compared with the recorded one, and not used at a kink."""


def _to_sympy(tree: Tree, symbols: Mapping[int, Any]) -> Any:
    if isinstance(tree, Symbol):
        return symbols[tree.index]
    if isinstance(tree, Number):
        return sympy.Integer(tree.value) if isinstance(tree.value, int) else sympy.Float(tree.value)
    assert isinstance(tree, Apply)
    args = [_to_sympy(arg, symbols) for arg in tree.args]
    constants = [arg for arg in args if not arg.free_symbols]
    if tree.op not in ARITHMETIC and not all(arg.is_Number and -MODEST < arg < MODEST for arg in constants):
        raise Unwritten(f"`{tree.op}` of a constant that is not a plain number")  # sympy may compute forever
    return FUNCTIONS[tree.op](*args)


def _from_sympy(found: Any, symbols: Mapping[Any, int]) -> Tree:
    # Convert a sympy object to a tree, in an order that depends only on the object's content.
    if found.is_Symbol:
        return Symbol(symbols[found])
    if found in CONSTANTS:
        return CONSTANTS[found]
    if found.is_Add:
        terms = [_from_sympy(term, symbols) for term in found.as_ordered_terms()]
        first = next((at for at, term in enumerate(terms) if not _is_negative(term)), 0)
        return Apply("add", (terms[first], *terms[:first], *terms[first + 1 :]))
    if found.as_coeff_Mul()[0].is_negative:
        return apply("neg", _from_sympy(-found, symbols))
    above, below = sympy.fraction(found, exact=True)
    if below != 1:
        return apply("div", _from_sympy(above, symbols), _from_sympy(below, symbols))
    if found.is_Number:
        value = int(found) if found.is_Integer else float(found)
        if not fits(value):
            raise Unwritten("a number in it is too large for floating point")
        return number_of(value)
    name = type(found).__name__
    if found.is_Mul:  # order: numbers, powers of symbols, functions, sums
        ordered = sorted(found.as_ordered_factors(), key=lambda each: (each.is_Add, not each.is_polynomial()))
        name, args = "mul", ordered
    elif found.is_Pow:
        is_root = found.exp == sympy.Rational(1, 2)
        name, args = ("sqrt", [found.base]) if is_root else ("pow", [found.base, found.exp])
    elif FUNCTIONS.get(name) is type(found):
        args = list(found.args)
    else:
        raise Unwritten(f"its derivative holds {name}, which is not written out")
    return Apply(name, tuple(_from_sympy(arg, symbols) for arg in args))


def _is_negative(tree: Tree) -> bool:
    return isinstance(tree, Apply) and tree.op == "neg"
