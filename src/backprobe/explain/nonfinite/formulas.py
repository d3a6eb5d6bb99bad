"""Finds formulas such as ``log(softmax(a))`` across the lines of a program, and rewrites them as other formulas.

Each letter of a formula matches any value, and the same letter always the same value. A recorded value is replaced by
the expression that computed it, so a match may extend over several lines, functions and modules. A selection from a
value, or a reshape, does not prevent a match.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy

from backprobe.explain.nonfinite.terms import Term, constant, known_as
from backprobe.source.sites import operation as operation_of

TRANSPARENT = frozenset(
    {
        "getitem",
        "gather",
        "take",
        "index_select",
        "view",
        "reshape",
        "squeeze",
        "unsqueeze",
        "expand_dims",
        "flatten",
        "t",
        "mt",
        "transpose",
        "permute",
        "contiguous",
        "identity",
        "clone",
        "item",
        "cast",
        "to",
        "float",
        "double",
        "take_along_axis",
        "gather_nd",
        "stridedslice",
        "gatherv2",
        "diagonal",
    }
)
BOUNDING = frozenset({"abs", "clamp", "maximum", "minimum", "relu", "tile", "expand", "expand_as", "broadcast_to"})
"""Operations that are skipped in a match if they change no number, or only repeat numbers."""
COMMUTATIVE = frozenset({"add", "mul"})
DEEP = 12  # the largest number of lines that are followed to find an operation

TermOf = Callable[[int], Term]
"""Returns the expression of an entry as a term."""


@dataclass
class FormulaMatch:
    """A match of a formula: the value of each letter, the matched terms, and the dimension arguments of reductions.

    ``selections`` are the terms that select from a value or reshape it, as in ``log(softmax(a)[0])``, the outermost
    first. ``owners`` are the entries whose expressions contain the letters.
    """

    root: Term
    at: int
    letters: dict[str, Term] = field(default_factory=dict)
    terms: list[Term] = field(default_factory=list)
    words: dict[str, Term] = field(default_factory=dict)
    owners: dict[str, int] = field(default_factory=dict)
    selections: list[Term] = field(default_factory=list)

    def holds(self, term: Term) -> bool:
        """Is ``term`` one of the matched terms, or does it compute the same from the same inputs?"""
        return any(
            one is term or (term.at is not None and one.at == term.at) or _are_alike(one, term) for one in self.terms
        )


@lru_cache
def formula(text: str) -> ast.expr:
    """Parse the text of a formula into a syntax tree."""
    return ast.parse(text, mode="eval").body


def matches(text: str, at: int, term: Term, term_of: TermOf, value: Callable[[Term], Any]) -> Iterator[FormulaMatch]:
    """Yield the match of a formula with a term of the entry ``at``, if there is one."""
    found = FormulaMatch(term, at)
    if _Matcher(term_of, value).fits(formula(text), term, at, found):
        yield found


def _are_alike(one: Term, other: Term) -> bool:
    return bool(one.op) and (one.op, one.text) == (other.op, other.text) and one.leaves() == other.leaves()


class _Matcher:
    def __init__(self, term_of: TermOf, value: Callable[[Term], Any]) -> None:
        self._term_of, self._value = term_of, value

    def fits(self, pattern: ast.expr, term: Term, owner: int, found: FormulaMatch, *, is_divisor: bool = False) -> bool:
        match pattern:
            case ast.Name(id=letter):
                found.owners.setdefault(letter, owner)
                return self._is_letter(letter, term, found)
            case ast.Constant(value=int() | float() as number):
                return self._is_number(term, number)
        operands = _operands(pattern)
        op, (args, owner) = known_as(operation_of(pattern)), self._opened(term, owner, found, is_divisor)
        if args.op != op or len(args.args) < len(operands):
            return False
        for order in (operands, operands[::-1])[: 1 + (op in COMMUTATIVE)]:
            tried = replace(
                found,
                letters=dict(found.letters),
                terms=[*found.terms, args, term],
                words=dict(found.words),
                owners=dict(found.owners),
                selections=list(found.selections),
            )
            divisors = (is_divisor, is_divisor or op == "div")
            pairs = zip(order, args.args, divisors, strict=False)
            if all(self.fits(one, arg, owner, tried, is_divisor=divides) for one, arg, divides in pairs):
                self._remember(args, len(operands), tried)
                vars(found).update(vars(tried))
                return True
        return False

    def _remember(self, term: Term, taken: int, found: FormulaMatch) -> None:
        # Store the keyword arguments of a reduction or softmax that give its dimension.
        words = {word: one for word, one in term.keywords.items() if word in ("dim", "keepdim", "correction")}
        if len(term.args) > taken:
            words.setdefault("dim", term.args[taken])
        found.words.update(words)

    def _opened(self, term: Term, owner: int, found: FormulaMatch, is_divisor: bool) -> tuple[Term, int]:
        # Return the operation that computed a value, found through names and selections, and the entry whose expression
        # contains it. A divisor that was reshaped to fit its dividend does not count as a selection from the quotient.
        for _ in range(DEEP):
            held = term.at
            if term.args and (known_as(term.op) in TRANSPARENT or self._changes_nothing(term)):
                found.terms.append(term)
                if known_as(term.op) in TRANSPARENT and not is_divisor:
                    found.selections.append(term)
                term = term.args[0]
            elif not term.op and held is not None and self._term_of(held) is not term:
                found.terms.append(term)
                term, owner = self._term_of(held), held
            else:
                break
        return term, owner

    def _changes_nothing(self, term: Term) -> bool:
        if known_as(term.op) not in BOUNDING:
            return False
        before, after = self._value(term.args[0]), self._value(term if term.at is None else Term(at=term.at))
        if before is None or after is None or numpy.ndim(before) != numpy.ndim(after):
            return False
        return _are_equal(numpy.broadcast_arrays(before, after)[0], after)

    def _is_letter(self, letter: str, term: Term, found: FormulaMatch) -> bool:
        known = found.letters.setdefault(letter, term)
        if known is term or (known.at is not None and known.at == term.at):
            return True
        one, other = self._value(known), self._value(term)
        return one is not None and other is not None and _are_equal(one, other)

    def _is_number(self, term: Term, number: float) -> bool:
        value = self._value(term)
        if isinstance(value, float):
            value = numpy.float32(value)  # in single precision, 1 + 1e-10 is 1
        return value is not None and numpy.ndim(value) == 0 and _are_equal(value, number)


def _are_equal(one: Any, other: Any) -> bool:
    try:
        return bool(numpy.array_equal(one, other))
    except (TypeError, ValueError):
        return False


def _operands(pattern: ast.expr) -> Sequence[ast.expr]:
    match pattern:
        case ast.BinOp(left=left, right=right) | ast.Compare(left=left, comparators=[right]):
            return [left, right]
        case ast.UnaryOp(operand=one):
            return [one]
        case ast.Call(args=args):
            return args
    return []


def written(text: str, found: FormulaMatch, numbers: Mapping[str, float]) -> Term:
    """Return a formula as a term, with the matched values as letters; ``numbers`` are the values of its constants."""

    def term(node: ast.expr) -> Term:
        match node:
            case ast.Name(id=name):
                return constant(numbers[name]) if name in numbers else found.letters[name]
            case ast.Constant(value=value):
                return constant(value)
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)):
                return constant(-value)
        op = known_as(operation_of(node))
        words = {str(one.arg): term(one.value) for one in node.keywords} if isinstance(node, ast.Call) else {}
        return Term(op, tuple(map(term, _operands(node))), {**given_to(op, found), **words})

    made = term(formula(text))
    for one in reversed(found.selections):
        made = replace(one, args=(made, *one.args[1:]), text="", at=None)
    return made


GIVEN: Mapping[str, Sequence[str]] = {
    **dict.fromkeys(("softmax", "log_softmax", "logcumsumexp"), ("dim",)),
    **dict.fromkeys(("sum", "logsumexp", "norm", "prod"), ("dim", "keepdim")),
    **dict.fromkeys(("std", "var"), ("dim", "keepdim", "correction")),
}
"""For each function over a dimension, the arguments that it takes over from the call which it replaces."""


def given_to(op: str, found: FormulaMatch) -> dict[str, Term]:
    """The dimension arguments of a match that the function ``op`` also accepts."""
    return {word: term for word, term in found.words.items() if word in GIVEN.get(op, ())}
