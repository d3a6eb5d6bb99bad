"""Writes formulas, names and rows in a notation: plain text or LaTeX.

Every part of a derivation is a tree. A notation defines how leaves and operations are written: by a template
(``forms``), by a sign between operands (``joins``), or else as a function call.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from backprobe.derive.tree import ARITHMETIC, Apply, Leaf, Number, Tree
from backprobe.show.text import printable

SUM, MINUS, QUOTIENT, PRODUCT, POWER, ATOM = range(6)  # precedence of the outermost operation, from loose to tight
# a name that contains one of these is bracketed, because the formula could be misread
OPERATORS = frozenset("/*+-=<>|^·∂ ")
EXPONENTS = frozenset("eEjJ")  # after a number, one of these would be read as its exponent or imaginary unit
SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")

Written: TypeAlias = tuple[str, int]
"""A formula as text, and the precedence of its outermost operation."""


@dataclass(frozen=True)
class FormulaRow:
    """One line of a derivation: terms joined by equals signs, an optional subject before them, and a source line after
    them.
    """

    terms: Sequence[Tree]
    about: Tree | None = None
    where: Tree | None = None


class Text:
    """Plain text in Unicode: ``2z+2``, ``cos(x)``, ``∂y/∂x``."""

    forms: Mapping[str, str] = {
        "abs": "|{}|",
        "step": "[{}>0]",
        "pi": "π",
        "e": "exp(1)",
        "brackets": "({})",
        "partial": "∂{}/∂{}",
        "direct": "∂{}/∂{}|direct",
        "jacobian": "J[∂{}/∂{}: {}×{}]",
        "dots": "⋯",
    }
    joins: Mapping[str, str] = {"chain": " · ", "path": " ← ", "is": " = ", "listed": ", ", "beside": ""}
    dot, short = "·", 1.0  # in characters: after a number, a longer name needs a dot before it

    def write(self, tree: Tree) -> Written:
        """Write a formula, and return it with the precedence of its outermost operation."""
        if isinstance(tree, Leaf):
            return getattr(self, tree.kind)(tree.text), ATOM
        if isinstance(tree, Number):
            return self.number(number_text(tree.value)), ATOM
        assert isinstance(tree, Apply)
        args = [self.write(arg) for arg in tree.args]
        texts = [text for text, _ in args]
        match tree.op:
            case "add":
                return _added(texts), SUM
            case "total":  # a sum of products, with spaces around each sign
                return _added(texts, " "), SUM
            case "neg":
                return "-" + self.bracketed(args[0], QUOTIENT), MINUS
            case "mul" | "times":
                return self.product(tree, args)
            case "div":
                return self.fraction(*args)
            case "pow":
                return self.power(self.bracketed(args[0], ATOM), args[1]), POWER
        if tree.op in self.joins:
            return self.joins[tree.op].join(texts), ATOM
        if tree.op in self.forms:
            return self.forms[tree.op].format(*texts), ATOM
        return self.function(tree.op) + self.forms["brackets"].format(", ".join(texts)), ATOM

    def bracketed(self, written: Written, least: int) -> str:
        """Return a text, in brackets if its precedence is lower than ``least``."""
        text, binding = written
        return text if binding >= least else self.forms["brackets"].format(text)

    def product(self, tree: Apply, factors: Sequence[Written]) -> Written:
        first, *rest = (self.bracketed(factor, PRODUCT) for factor in factors)
        if factors[0][1] == MINUS:
            first = factors[0][0]
        if tree.op == "mul" and self.follows(*tree.args[:2]):
            first, rest = first + rest[0], rest[1:]
        return self.dot.join([first, *rest]), MINUS if first.startswith("-") else PRODUCT

    def follows(self, coefficient: Tree, factor: Tree) -> bool:
        """May a number directly precede this factor, without a dot?

        Yes for short names and functions, and their powers.
        """
        if isinstance(factor, Apply) and factor.op == "pow" and isinstance(factor.args[1], Number):
            factor = factor.args[0]
        name = factor.text if isinstance(factor, Leaf) else factor.op if isinstance(factor, Apply) else ""
        is_short = 0 < len(name) <= self.short and name not in {*EXPONENTS, *ARITHMETIC}
        return is_short and isinstance(coefficient, Number) and "e" not in number_text(coefficient.value)

    def name(self, name: str) -> str:
        shown = printable(name)
        # without brackets, π would be the constant
        return f"‹{shown}›" if OPERATORS & set(shown) or shown == "π" else shown

    def number(self, text: str) -> str:
        return text

    def word(self, word: str) -> str:
        return printable(word)

    def function(self, name: str) -> str:
        return name

    def power(self, base: str, exponent: Written) -> str:
        if exponent[0].isdigit():
            return base + exponent[0].translate(SUPERSCRIPTS)
        return f"{base}^{self.bracketed(exponent, ATOM)}"

    def fraction(self, above: Written, below: Written) -> Written:
        return f"{self.bracketed(above, QUOTIENT)}/{self.bracketed(below, POWER)}", QUOTIENT

    def line(self, line: FormulaRow | Tree) -> str:
        """Write a line of a formula. In a row of equal terms, a term that reads like the one before it is left out."""
        if not isinstance(line, FormulaRow):
            return self.unequal(self.write(line)[0])
        terms = [self.write(term)[0] for term in line.terms]
        kept = [term for at, term in enumerate(terms) if not at or _bare(term) != _bare(terms[at - 1])]
        about, where = (each and self.write(each)[0] for each in (line.about, line.where))
        return self.equal(kept, about or "", where or "")

    def equal(self, terms: Sequence[str], about: str, where: str) -> str:
        return (f"{about}: " if about else "") + " = ".join(terms) + (f"  ({where})" if where else "")

    def unequal(self, text: str) -> str:
        return text

    def page(self, blocks: Sequence[Sequence[FormulaRow | Tree]]) -> str:
        return "\n\n".join("\n".join(map(self.line, block)) for block in blocks if block)


class Latex(Text):
    """LaTeX for both MathJax and LaTeX: one ``aligned`` environment, for use in ``$$`` or in an ``equation``."""

    forms: Mapping[str, str] = {
        "abs": r"\left|{}\right|",
        "step": r"\left[{}>0\right]",
        "sqrt": r"\sqrt{{{}}}",
        "pi": r"\pi",
        "e": r"\exp\left(1\right)",
        "brackets": r"\left({}\right)",
        "partial": r"\frac{{\partial {}}}{{\partial {}}}",
        "direct": r"\left.\frac{{\partial {}}}{{\partial {}}}\right|_{{\mathrm{{direct}}}}",
        "jacobian": r"J\left[\frac{{\partial {}}}{{\partial {}}}:\ {} \times {}\right]",
        "dots": r"\cdots",
    }
    joins: Mapping[str, str] = {**Text.joins, "chain": r" \cdot ", "path": r" \leftarrow ", "listed": r",\ "}
    dot, short = r" \cdot ", math.inf  # any length needs no dot, because LaTeX sets a name in upright letters

    def name(self, name: str) -> str:
        """Write a name: a single letter as it is, a Greek letter as a command, ``x1`` with an index, others upright.

        >>> print(Latex().name("x"), Latex().name("beta"), Latex().name("w12"), Latex().name("self.k_0"))
        x \\beta w_{12} \\mathrm{self.k\\_0}
        """
        if name in GREEK:
            return f"\\{name}"
        if name == "π":
            return r"\langle\mathrm{π}\rangle"  # without brackets, \pi would be the constant
        indexed = re.fullmatch("([A-Za-z])([0-9]*)", name)
        if indexed is None:
            return self.word(name)
        return indexed[1] + (f"_{{{indexed[2]}}}" if indexed[2] else "")

    def number(self, text: str) -> str:
        if text in ("inf", "-inf"):
            return text.replace("inf", r"\infty")
        if not re.fullmatch(r"[-+0-9.e, \[\]]*", text):
            return self.word(text)
        return re.sub(r"e\+?(-?)0*(\d+)", r" \\times 10^{\1\2}", text).replace(", ", r",\ ")

    def word(self, word: str) -> str:
        """Write any text in upright letters inside a formula.

        >>> print(Latex().word("u#1"), Latex().word("/f:d.`a$b`"))
        \\mathrm{u\\#1} \\mathrm{{/}f{:}d.\\text{`}a\\$b\\text{`}}
        """
        return rf"\mathrm{{{''.join(ESCAPES.get(each, each) for each in printable(word))}}}"

    def function(self, name: str) -> str:
        return FUNCTIONS.get(name, rf"\operatorname{{{name}}}")

    def power(self, base: str, exponent: Written) -> str:
        return f"{base}^{{{exponent[0]}}}"

    def fraction(self, above: Written, below: Written) -> Written:
        return rf"\frac{{{above[0]}}}{{{below[0]}}}", PRODUCT

    def equal(self, terms: Sequence[str], about: str, where: str) -> str:
        first, *rest = terms
        shown = (rf"{about}:\quad " if about else "") + f"{first} &" + (f"= {' = '.join(rest)}" if rest else "")
        return shown + (rf" \qquad ({where})" if where else "")

    def unequal(self, text: str) -> str:
        return f"& {text}"

    def page(self, blocks: Sequence[Sequence[FormulaRow | Tree]]) -> str:
        lines = " \\\\\n".join(self.line(line) for block in blocks for line in block)
        return f"\\begin{{aligned}}\n{lines}\n\\end{{aligned}}"


GREEK = frozenset(
    {
        "alpha",
        "beta",
        "gamma",
        "delta",
        "epsilon",
        "zeta",
        "eta",
        "theta",
        "iota",
        "kappa",
        "lambda",
        "mu",
        "nu",
        "xi",
        "rho",
        "sigma",
        "tau",
        "upsilon",
        "phi",
        "chi",
        "psi",
        "omega",
        "Gamma",
        "Delta",
        "Theta",
        "Lambda",
        "Xi",
        "Pi",
        "Sigma",
        "Upsilon",
        "Phi",
        "Psi",
        "Omega",
    }
)
FUNCTIONS: Mapping[str, str] = {
    **{name: f"\\{name}" for name in ("exp", "log", "sin", "cos", "tan", "sinh", "cosh", "tanh")},
    "asin": r"\arcsin",
    "acos": r"\arccos",
    "atan": r"\arctan",
    "maximum": r"\max",
    "minimum": r"\min",
    "log2": r"\log_{2}",
    "log10": r"\log_{10}",
}
ESCAPES = {
    "\\": r"\backslash ",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "_": r"\_",
    "%": r"\%",
    "&": r"\&",
    "#": r"\#",
    "^": r"{\wedge}",
    "~": r"{\sim}",
    " ": r"\ ",
    "'": r"\text{'}",
    '"': r'\text{"}',
    "`": r"\text{`}",
    **{character: f"{{{character}}}" for character in ":/-+*=<>|,;!?"},
}


def _added(terms: Sequence[str], room: str = "") -> str:
    # Return a sum. A term that begins with a minus is subtracted.
    signed = [(term[0], term[1:]) if term.startswith("-") else ("+", term) for term in terms[1:]]
    return terms[0] + "".join(f"{room}{sign}{room}{term}" for sign, term in signed)


def _bare(term: str) -> str:
    return term.replace(" ", "")


def rounded(value: float) -> str:
    """Return a recorded number as text: integers in full as long as a double is exact, others with six digits."""
    return str(int(value)) if value.is_integer() and abs(value) < 1e15 else f"{value:.6g}"


def number_text(value: int | float) -> str:
    """Return a number as short text that reads back nearly unchanged: 0.1, not 0.1000000000000000055."""
    return str(value) if isinstance(value, int) else f"{value:.15g}"
