"""Formulas and names as text and as LaTeX: one layout, two notations."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Protocol

from backprobe.derive.tree import Apply, Number, Symbol, Tree
from backprobe.show.table import printable

SUM, MINUS, QUOTIENT, PRODUCT, POWER, ATOM = range(6)  # how tightly the outermost operation binds
OPERATORS = frozenset("/*+-=<>|^·∂ ")  # a name that holds one is bracketed, or a formula could be read in two ways
EXPONENTS = frozenset("eEjJ")  # behind a number they would read as a part of it
SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


class Notation(Protocol):
    """How the pieces of a formula look."""

    dot: str
    dots: str
    arrow: str
    comma: str

    def name(self, name: str) -> str: ...

    def number(self, text: str) -> str: ...

    def word(self, word: str) -> str: ...

    def brackets(self, inside: str) -> str: ...

    def call(self, function: str, arguments: Sequence[str]) -> str: ...

    def power(self, base: str, exponent: str) -> str: ...

    def fraction(self, above: tuple[str, int], below: tuple[str, int]) -> tuple[str, int]:
        """A quotient of two texts that bind this tightly, and how tightly it binds."""
        ...

    def partial(self, above: str, below: str) -> str: ...

    def direct(self, partial: str) -> str:
        """A partial that leaves out what flows along other ways."""
        ...

    def jacobian(self, partial: str, of: str, towards: str) -> str:
        """What is named and not written out, with its shapes."""
        ...

    def follows(self, coefficient: str, factor: str) -> bool:
        """May a number stand before this factor without a dot?"""
        ...


class Text:
    """Plain text in Unicode: ``2z+2``, ``cos(x)``, ``∂y/∂x``."""

    dot, dots, arrow, comma = "·", "⋯", "←", ", "

    def name(self, name: str) -> str:
        shown = printable(name)
        return f"‹{shown}›" if OPERATORS & set(shown) or shown == "π" else shown  # the constant is π

    def number(self, text: str) -> str:
        return text

    def word(self, word: str) -> str:
        return printable(word)

    def brackets(self, inside: str) -> str:
        return f"({inside})"

    def call(self, function: str, arguments: Sequence[str]) -> str:
        inside = ", ".join(arguments)
        match function:
            case "abs":
                return f"|{inside}|"
            case "step":
                return f"[{inside}>0]"
            case "pi":
                return "π"
            case "e":
                return "exp(1)"
        return f"{function}({inside})"

    def power(self, base: str, exponent: str) -> str:
        return base + (exponent.translate(SUPERSCRIPTS) if exponent.isdigit() else f"^{exponent}")

    def fraction(self, above: tuple[str, int], below: tuple[str, int]) -> tuple[str, int]:
        return f"{self.within(above, QUOTIENT)}/{self.within(below, POWER)}", QUOTIENT

    def within(self, written: tuple[str, int], least: int) -> str:
        return written[0] if written[1] >= least else self.brackets(written[0])

    def partial(self, above: str, below: str) -> str:
        return f"∂{self.name(above)}/∂{self.name(below)}"

    def direct(self, partial: str) -> str:
        return f"{partial}|direct"

    def jacobian(self, partial: str, of: str, towards: str) -> str:
        return f"J[{partial}: {of}×{towards}]"

    def follows(self, coefficient: str, factor: str) -> bool:
        letters = factor.rstrip("⁰¹²³⁴⁵⁶⁷⁸⁹")
        plain = len(letters) == 1 and letters.isalpha() and letters not in EXPONENTS
        return plain and coefficient.replace(".", "").isdigit()


class Latex:
    """LaTeX that MathJax and LaTeX read alike."""

    dot, dots, arrow, comma = r" \cdot ", r"\cdots", r"\leftarrow", r",\ "

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

    def call(self, function: str, arguments: Sequence[str]) -> str:
        inside = ", ".join(arguments)
        match function:
            case "abs":
                return rf"\left|{inside}\right|"
            case "step":
                return rf"\left[{inside}>0\right]"
            case "sqrt":
                return rf"\sqrt{{{inside}}}"
            case "pi":
                return r"\pi"
            case "e":
                return r"\exp\left(1\right)"
        return FUNCTIONS.get(function, rf"\operatorname{{{function}}}") + self.brackets(inside)

    def power(self, base: str, exponent: str) -> str:
        return f"{base}^{{{exponent}}}"

    def fraction(self, above: tuple[str, int], below: tuple[str, int]) -> tuple[str, int]:
        return rf"\frac{{{above[0]}}}{{{below[0]}}}", PRODUCT

    def partial(self, above: str, below: str) -> str:
        return rf"\frac{{\partial {self.name(above)}}}{{\partial {self.name(below)}}}"

    def direct(self, partial: str) -> str:
        return rf"\left.{partial}\right|_{{\mathrm{{direct}}}}"

    def jacobian(self, partial: str, of: str, towards: str) -> str:
        return rf"J\left[{partial}:\ {of} \times {towards}\right]"

    def follows(self, coefficient: str, factor: str) -> bool:
        plain = not factor[0].isdigit() and factor[0] not in EXPONENTS
        return plain and "\\" not in coefficient and not factor.startswith((r"\left", r"\frac"))


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


def write(tree: Tree, names: Sequence[str], notation: Notation) -> tuple[str, int]:
    """A formula, its symbols called by these names, and how tightly its outermost operation binds."""
    if isinstance(tree, Symbol):
        return notation.name(names[tree.index]), ATOM
    if isinstance(tree, Number):
        return notation.number(number_text(tree.value)), ATOM
    match tree.op:
        case "add":
            return _sum(tree, names, notation), SUM
        case "neg":
            return "-" + within(tree.args[0], names, notation, QUOTIENT), MINUS
        case "mul":
            return _product(tree, names, notation), PRODUCT
        case "div":
            above, below = (write(arg, names, notation) for arg in tree.args)
            return notation.fraction(above, below)
        case "pow":
            base, exponent = within(tree.args[0], names, notation, ATOM), _exponent(tree.args[1], names, notation)
            return notation.power(base, exponent), POWER
    arguments = [write(arg, names, notation)[0] for arg in tree.args]
    return notation.call(tree.op, arguments), ATOM


def within(tree: Tree, names: Sequence[str], notation: Notation, least: int) -> str:
    """A formula in brackets where it binds less tightly than what is around it."""
    text, binding = write(tree, names, notation)
    return text if binding >= least else notation.brackets(text)


def _sum(tree: Apply, names: Sequence[str], notation: Notation) -> str:
    first, *rest = (within(term, names, notation, SUM if not at else MINUS) for at, term in enumerate(tree.args))
    return first + "".join(term if term.startswith("-") else f"+{term}" for term in rest)


def _product(tree: Apply, names: Sequence[str], notation: Notation) -> str:
    first, *rest = (within(factor, names, notation, PRODUCT) for factor in tree.args)
    if isinstance(tree.args[0], Number) and rest and notation.follows(first, rest[0]):
        first, rest = first + rest[0], rest[1:]
    return notation.dot.join([first, *rest])


def _exponent(tree: Tree, names: Sequence[str], notation: Notation) -> str:
    text, binding = write(tree, names, notation)
    return text if isinstance(notation, Latex) or binding == ATOM else notation.brackets(text)


def rounded(value: float) -> str:
    """A recorded number: whole ones in full as far as a double holds them, others to six digits."""
    return str(int(value)) if value.is_integer() and abs(value) < 1e15 else f"{value:.6g}"


def number_text(value: int | float) -> str:
    """An integer in full, a float as short as it reads back to nearly the same, 0.1 and not 0.1000000000000000055."""
    return str(value) if isinstance(value, int) else f"{value:.15g}"
