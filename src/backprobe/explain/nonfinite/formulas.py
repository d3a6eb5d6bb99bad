"""Formulas such as ``log(softmax(a))``: found in what a program computed, line by line, and written in other words.

A letter stands for any value, the same for the same letter. A recorded value is what its own line computes, and so on,
so that a formula may go over several lines, functions and modules. Selecting or reshaping values changes none of them.
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

TRANSPARENT = frozenset({
    "getitem", "gather", "take", "index_select", "view", "reshape", "squeeze", "unsqueeze", "expand_dims", "flatten",
    "t", "mt", "transpose", "permute", "contiguous", "identity", "clone", "item", "cast", "to", "float", "double",
    "take_along_axis", "gather_nd", "stridedslice", "gatherv2", "diagonal",
})  # fmt: skip
BOUNDING = frozenset({
    "abs", "clamp", "maximum", "minimum", "relu", "tile", "expand", "expand_as", "broadcast_to",
})  # fmt: skip
"""Operations that are looked through, and left out, where they change no number but repeat it."""
COMMUTATIVE = frozenset({"add", "mul"})
DEEP = 12  # lines that are looked through for one operation

TermOf = Callable[[int], Term]
"""What an entry computes."""


@dataclass
class FormulaMatch:
    """What the letters of a formula stand for, the terms that it was found in, and the reductions' dimensions.

    ``selections`` are the terms that select from a value or reshape it, as in ``log(softmax(a)[0])``, the outermost
    first. ``owners`` are the entries in whose expressions the letters stand.
    """

    root: Term
    at: int
    letters: dict[str, Term] = field(default_factory=dict)
    terms: list[Term] = field(default_factory=list)
    words: dict[str, Term] = field(default_factory=dict)
    owners: dict[str, int] = field(default_factory=dict)
    selections: list[Term] = field(default_factory=list)

    def holds(self, term: Term) -> bool:
        """Is a term one of those that it was found in, or computes the same from the same?"""
        return any(
            one is term or (term.at is not None and one.at == term.at) or _are_alike(one, term) for one in self.terms
        )


@lru_cache
def formula(text: str) -> ast.expr:
    """A formula as a tree."""
    return ast.parse(text, mode="eval").body


def matches(text: str, at: int, term: Term, term_of: TermOf, value: Callable[[Term], Any]) -> Iterator[FormulaMatch]:
    """A term in the expression of the entry ``at`` as a formula: once or not at all."""
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
        # The dimension that a reduction or softmax goes over.
        words = {word: one for word, one in term.keywords.items() if word in ("dim", "keepdim", "correction")}
        if len(term.args) > taken:
            words.setdefault("dim", term.args[taken])
        found.words.update(words)

    def _opened(self, term: Term, owner: int, found: FormulaMatch, is_divisor: bool) -> tuple[Term, int]:
        # What a value was computed by, behind names and selections, and in the expression of which entry.
        #
        # A divisor is reshaped to fit what it divides, and that does not select from the quotient.
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
            value = numpy.float32(value)  # 1 + 1e-10 is 1 beside numbers of single precision
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
    """A formula as a term of what the letters of another stand for; ``numbers`` are what small words mean."""

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


OVER_ONE, OVER_SEVERAL, SPREADS = ("dim",), ("dim", "keepdim"), ("dim", "keepdim", "correction")
GIVEN: Mapping[str, Sequence[str]] = {
    "softmax": OVER_ONE,
    "log_softmax": OVER_ONE,
    "sum": OVER_SEVERAL,
    "logsumexp": OVER_SEVERAL,
    "norm": OVER_SEVERAL,
    "logcumsumexp": OVER_ONE,
    "prod": OVER_SEVERAL,
    "std": SPREADS,
    "var": SPREADS,
}
"""What functions over a dimension may be given of what the program gave to the one that they replace."""


def given_to(op: str, found: FormulaMatch) -> dict[str, Term]:
    """The dimension of a formula, for a function that goes over one."""
    return {word: term for word, term in found.words.items() if word in GIVEN.get(op, ())}
