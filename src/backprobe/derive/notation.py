"""How formulas, names and rows look: in plain text, and in LaTeX."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from backprobe.derive.tree import Apply, Number, Symbol, Tree
from backprobe.show.text import printable

SUM, MINUS, QUOTIENT, PRODUCT, POWER, ATOM = range(6)  # how tightly the outermost operation binds
OPERATORS = frozenset("/*+-=<>|^·∂ ")  # a name that holds one is bracketed, or a formula could be read in two ways
EXPONENTS = frozenset("eEjJ")  # behind a number they would read as a part of it
SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")

Written: TypeAlias = tuple[str, int]
"""A text, and how tightly its outermost operation binds."""


@dataclass(frozen=True)
class Row:
    """Equal terms, what they are about before them, and their place in the source behind them."""

    terms: Sequence[str]
    about: str = ""
    where: str = ""


class Text:
    """Plain text in Unicode: ``2z+2``, ``cos(x)``, ``∂y/∂x``."""

    dot, dots, arrow, comma = "·", "⋯", "←", ", "
    calls: Mapping[str, str] = {"abs": "|{}|", "step": "[{}>0]", "pi": "π", "e": "exp(1)"}

    def name(self, name: str) -> str:
        shown = printable(name)
        return f"‹{shown}›" if OPERATORS & set(shown) or shown == "π" else shown  # the constant is π

    def number(self, text: str) -> str:
        return text

    def word(self, word: str) -> str:
        return printable(word)

    def brackets(self, inside: str) -> str:
        return f"({inside})"

    def call(self, function: str, inside: str) -> str:
        return self.calls[function].format(inside) if function in self.calls else f"{function}({inside})"

    def power(self, base: str, exponent: Written) -> str:
        text, binding = exponent
        if text.isdigit():
            return base + text.translate(SUPERSCRIPTS)
        return f"{base}^{text if binding == ATOM else self.brackets(text)}"

    def fraction(self, above: Written, below: Written) -> Written:
        return f"{bracketed(above, QUOTIENT, self)}/{bracketed(below, POWER, self)}", QUOTIENT

    def partial(self, above: str, below: str) -> str:
        return f"∂{self.name(above)}/∂{self.name(below)}"

    def direct(self, partial: str) -> str:
        """A partial that leaves out what flows along other paths."""
        return f"{partial}|direct"

    def jacobian(self, partial: str, of: str, wrt: str) -> str:
        """A Jacobian by its name and its shapes, not written out."""
        return f"J[{partial}: {of}×{wrt}]"

    def follows(self, coefficient: str, factor: str) -> bool:
        """May a number stand before this factor without a dot?"""
        letters = factor.rstrip("⁰¹²³⁴⁵⁶⁷⁸⁹")
        plain = len(letters) == 1 and letters.isalpha() and letters not in EXPONENTS
        return plain and coefficient.replace(".", "").isdigit()

    def row(self, row: Row) -> str:
        about = f"{row.about}: " if row.about else ""
        return about + " = ".join(row.terms) + (f"  ({row.where})" if row.where else "")

    def line(self, text: str) -> str:
        """A line that holds no equation."""
        return text

    def page(self, blocks: Sequence[Sequence[str]]) -> str:
        return "\n\n".join("\n".join(block) for block in blocks if block)


class Latex:
    """LaTeX that MathJax and LaTeX read alike: one ``aligned`` environment, for ``$$`` or an ``equation``."""

    dot, dots, arrow, comma = r" \cdot ", r"\cdots", r"\leftarrow", r",\ "
    calls: Mapping[str, str] = {
        "abs": r"\left|{}\right|", "step": r"\left[{}>0\right]", "sqrt": r"\sqrt{{{}}}", "pi": r"\pi",
        "e": r"\exp\left(1\right)",
    }  # fmt: skip

    def name(self, name: str) -> str:
        """A letter as it is, a Greek one by its command, ``x1`` with an index, and all else upright.

        >>> print(Latex().name("x"), Latex().name("beta"), Latex().name("w12"), Latex().name("self.k_0"))
        x \\beta w_{12} \\mathrm{self.k\\_0}
        """
        if name in GREEK:
            return f"\\{name}"
        if name == "π":
            return r"\langle\mathrm{π}\rangle"  # the constant is \pi
        indexed = re.fullmatch("([A-Za-z])([0-9]*)", name)
        if indexed is None:
            return upright(name)
        return indexed[1] + (f"_{{{indexed[2]}}}" if indexed[2] else "")

    def number(self, text: str) -> str:
        if text in ("inf", "-inf"):
            return text.replace("inf", r"\infty")
        if not re.fullmatch(r"[-+0-9.e, \[\]]*", text):
            return upright(text)
        return re.sub(r"e\+?(-?)0*(\d+)", r" \\times 10^{\1\2}", text).replace(", ", r",\ ")

    def word(self, word: str) -> str:
        return upright(word)

    def brackets(self, inside: str) -> str:
        return rf"\left({inside}\right)"

    def call(self, function: str, inside: str) -> str:
        if function in self.calls:
            return self.calls[function].format(inside)
        return FUNCTIONS.get(function, rf"\operatorname{{{function}}}") + self.brackets(inside)

    def power(self, base: str, exponent: Written) -> str:
        return f"{base}^{{{exponent[0]}}}"

    def fraction(self, above: Written, below: Written) -> Written:
        return rf"\frac{{{above[0]}}}{{{below[0]}}}", PRODUCT

    def partial(self, above: str, below: str) -> str:
        return rf"\frac{{\partial {self.name(above)}}}{{\partial {self.name(below)}}}"

    def direct(self, partial: str) -> str:
        return rf"\left.{partial}\right|_{{\mathrm{{direct}}}}"

    def jacobian(self, partial: str, of: str, wrt: str) -> str:
        return rf"J\left[{partial}:\ {of} \times {wrt}\right]"

    def follows(self, coefficient: str, factor: str) -> bool:
        plain = not factor[0].isdigit() and factor[0] not in EXPONENTS
        return plain and "\\" not in coefficient and not factor.startswith((r"\left", r"\frac"))

    def row(self, row: Row) -> str:
        first, *rest = row.terms
        about = rf"{row.about}:\quad " if row.about else ""
        where = rf" \qquad ({row.where})" if row.where else ""
        return f"{about}{first} &" + (f"= {' = '.join(rest)}" if rest else "") + where

    def line(self, text: str) -> str:
        return f"& {text}"

    def page(self, blocks: Sequence[Sequence[str]]) -> str:
        lines = " \\\\\n".join(line for block in blocks for line in block)
        return f"\\begin{{aligned}}\n{lines}\n\\end{{aligned}}"


Notation: TypeAlias = Text | Latex

GREEK = frozenset({
    "alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa", "lambda", "mu", "nu", "xi",
    "rho", "sigma", "tau", "upsilon", "phi", "chi", "psi", "omega", "Gamma", "Delta", "Theta", "Lambda", "Xi",
    "Pi", "Sigma", "Upsilon", "Phi", "Psi", "Omega",
})  # fmt: skip
FUNCTIONS: Mapping[str, str] = {
    **{name: f"\\{name}" for name in ("exp", "log", "sin", "cos", "tan", "sinh", "cosh", "tanh")},
    "asin": r"\arcsin", "acos": r"\arccos", "atan": r"\arctan", "maximum": r"\max", "minimum": r"\min",
    "log2": r"\log_{2}", "log10": r"\log_{10}",
}  # fmt: skip
ESCAPES = {
    "\\": r"\backslash ", "{": r"\{", "}": r"\}", "$": r"\$", "_": r"\_", "%": r"\%", "&": r"\&", "#": r"\#",
    "^": r"{\wedge}", "~": r"{\sim}", " ": r"\ ", "'": r"\text{'}", '"': r'\text{"}', "`": r"\text{`}",
    **{character: f"{{{character}}}" for character in ":/-+*=<>|,;!?"},
}  # fmt: skip


def upright(text: str) -> str:
    """Any text in upright letters within a formula.

    >>> print(upright("u#1"), upright("/f:d.`a$b`"))
    \\mathrm{u\\#1} \\mathrm{{/}f{:}d.\\text{`}a\\$b\\text{`}}
    """
    return rf"\mathrm{{{''.join(ESCAPES.get(each, each) for each in printable(text))}}}"


def write(tree: Tree, names: Sequence[str], notation: Notation) -> Written:
    """A formula, its symbols called by these names, and how tightly its outermost operation binds."""
    if isinstance(tree, Symbol):
        return notation.name(names[tree.index]), ATOM
    if isinstance(tree, Number):
        return notation.number(number_text(tree.value)), ATOM
    args = [write(arg, names, notation) for arg in tree.args]
    match tree.op:
        case "add":
            return _sum(args, notation), SUM
        case "neg":
            return "-" + bracketed(args[0], QUOTIENT, notation), MINUS
        case "mul":
            return _product(tree, args, notation), PRODUCT
        case "div":
            return notation.fraction(*args)
        case "pow":
            return notation.power(bracketed(args[0], ATOM, notation), args[1]), POWER
    return notation.call(tree.op, ", ".join(text for text, _ in args)), ATOM


def bracketed(written: Written, least: int, notation: Notation) -> str:
    """A text, in brackets where it binds less tightly than what is around it."""
    text, binding = written
    return text if binding >= least else notation.brackets(text)


def _sum(terms: Sequence[Written], notation: Notation) -> str:
    first, *rest = (bracketed(term, SUM if not at else MINUS, notation) for at, term in enumerate(terms))
    return first + "".join(term if term.startswith("-") else f"+{term}" for term in rest)


def _product(tree: Apply, factors: Sequence[Written], notation: Notation) -> str:
    first, *rest = (bracketed(factor, PRODUCT, notation) for factor in factors)
    if isinstance(tree.args[0], Number) and rest and notation.follows(first, rest[0]):
        first, rest = first + rest[0], rest[1:]
    return notation.dot.join([first, *rest])


def rounded(value: float) -> str:
    """A recorded number: whole ones in full as far as a double holds them, others to six digits."""
    return str(int(value)) if value.is_integer() and abs(value) < 1e15 else f"{value:.6g}"


def number_text(value: int | float) -> str:
    """An integer in full, a float as short as it reads back to nearly the same, 0.1 and not 0.1000000000000000055."""
    return str(value) if isinstance(value, int) else f"{value:.15g}"
