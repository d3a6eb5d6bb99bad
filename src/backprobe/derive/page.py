"""A derivation as rows: the paths with their products, the sum, and the line that computed each value."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import numpy

from backprobe.backends.numpy import nested_text
from backprobe.backends.tensors import Arrays
from backprobe.derive.chain import Chain
from backprobe.derive.factors import CheckedFormula, Factor, single, size
from backprobe.derive.formula import Unwritten
from backprobe.derive.notation import FormulaRow, rounded
from backprobe.derive.tree import Apply, Leaf, Tree, apply, named
from backprobe.errors import BackprobeError
from backprobe.findings.phrasing import listed
from backprobe.record.brief import SMALL, place, sizes
from backprobe.record.entries import Entry, GradStatus
from backprobe.record.held import plain_text
from backprobe.show.text import describe

MOST_FACTORS = 24  # factors of a product, or terms of a sum, that are written in full
ENDS = 4  # factors or terms that are shown at each end if not all are
MOST_LINES = 40  # the largest number of rows of steps, and of rows of factors
MOST_NOTES = 12
MOST_VALUES = 12


class Page:
    """The rows of a derivation, as trees that any notation can write."""

    def __init__(self, chain: Chain, arrays: Arrays) -> None:
        self.chain, self.arrays = chain, arrays
        self.seed = word("cotangent") if chain.seed is None else number(chain.seed)
        self.head = self._product([self.partial(chain.between.start, chain.between.end)], "chain")
        # A plain number if all values have one element, whatever their shape.
        self.result = number(single(chain.total)) if chain.scalars else self.shown(chain.total)

    def blocks(self, notes: Sequence[str]) -> list[list[FormulaRow | Tree]]:
        """Return the rows of the derivation in blocks, with notes at the end. Of many factors, steps or notes, the rest
        is counted."""
        shown = [f"note: {note}" for note in notes[:MOST_NOTES]]
        more = [f"note: and {len(notes) - MOST_NOTES} more"] if len(notes) > MOST_NOTES else []
        below: list[FormulaRow | Tree] = [*self.values(), *self.renamed(), *map(word, shown + more)]
        return [[*self.rows()], _first(self.factor_rows()), _first(self.steps()), below]

    def rows(self) -> list[FormulaRow]:
        """The rows of the derivative: the paths, and their sum."""
        chain, between = self.chain, self.chain.between
        if between.start == between.end:  # the derivative is then 1, or the given cotangent
            return [FormulaRow([self.head, self.seed, self.result])]
        if not between.count:
            return [FormulaRow([self.head, self.result])]
        if len(chain.listed) == 1:
            rows = [FormulaRow([self.head, *self._path(chain.listed[0])])]
        elif chain.listed:
            rows = [*map(self._along, chain.listed), *self._sum()]
        else:
            rows = [self._rule()]
        if chain.sum_agrees is False:
            given = word("the recorded partials give")
            rows = [FormulaRow([term for term in row.terms if term != self.head], row.about or given) for row in rows]
            rows.append(FormulaRow([self.head, self.result], word("recorded")))
        return rows

    # Methods for parts of formulas.

    def name(self, at: int) -> Tree:
        return Leaf("name", self.chain.labels[at])

    def partial(self, of: int, to: int) -> Tree:
        return apply("partial", self.name(of), self.name(to))

    def local(self, of: int, to: int) -> Tree:
        """The symbol of a local partial, with a mark if other paths make the total derivative different."""
        direct = self.chain.is_one_of_several(of, to)
        return apply("direct" if direct else "partial", self.name(of), self.name(to))

    def formula(self, factor: Factor) -> Tree:
        """Return a factor as a formula. Without one, return its recorded number or numbers, its name, or its Jacobian's
        shape.
        """
        of, to = self.chain.entries[factor.of], self.chain.entries[factor.wrt]
        if factor.tree is not None:
            return self.named(factor.tree, factor.symbols)
        if factor.number is not None:
            return number(factor.number)
        if size(of) != 1:
            shapes = word(str(of.shape)), word(str(to.shape))
            return apply("jacobian", self.name(factor.of), self.name(factor.wrt), *shapes)
        shown = None if "complex" in (to.dtype or "") else self.in_numbers(factor)
        return shown or self.partial(factor.of, factor.wrt)

    def in_numbers(self, factor: Factor) -> Tree | None:
        """Return a factor in numbers; None if it has too many elements, or if no numbers of it are known."""
        if factor.number is not None:
            return number(factor.number)
        if factor.numbers is not None and factor.numbers.size <= SMALL:
            return Leaf("number", nested_text(factor.numbers.tolist()))
        partial = self.chain.edges[factor.of, factor.wrt].partial
        small = size(self.chain.entries[factor.of]) == 1 and size(self.chain.entries[factor.wrt]) <= SMALL
        return self.shown(partial) if small and partial is not None else None

    def shown(self, tensor: Any) -> Tree:
        return Leaf("number", describe(tensor, self.arrays))

    def named(self, tree: Tree, symbols: Sequence[int]) -> Tree:
        return named(tree, [self.chain.labels[at] for at in symbols])

    def _product(self, factors: Sequence[Tree], op: str = "times") -> Tree:
        # Return a product that starts with the gradient of the output itself, unless that is 1.
        seeded = factors if self.chain.seed == 1 else [self.seed, *factors]
        return Apply(op, _elided(seeded)) if len(seeded) > 1 else seeded[0]

    # Methods for a single path.

    def _path(self, way: Sequence[int]) -> list[Tree]:
        # The product along a path in up to four forms: names, formulas, numbers, and its value.
        factors = [self.chain.factors[pair] for pair in pairwise(way)]
        numbers = [shown for shown in map(self.in_numbers, factors) if shown is not None]
        return [
            self._product([self.local(*pair) for pair in pairwise(way)], "chain"),
            self._product([self.formula(factor) for factor in factors]),
            *([self._product(numbers)] if len(numbers) == len(factors) else []),
            *self._comes_to(way),
        ]

    def _along(self, way: Sequence[int]) -> FormulaRow:
        return FormulaRow(self._path(way), Apply("path", _elided([self.name(at) for at in way])))

    def _comes_to(self, way: Sequence[int]) -> list[Tree]:
        # Return one path's contribution to the gradient, if it is known for this path alone.
        chain = self.chain
        if len(chain.listed) == 1 and chain.sum_agrees is not False:
            return [self.result]
        if chain.scalars:
            return [number(chain.product(way))]
        flow = chain.contributions()[way[-2]]
        return [self.shown(flow)] if chain.between.counts[way[-2]] == 1 and flow is not None else []

    # Methods for several paths.

    def _sum(self) -> list[FormulaRow]:
        chain = self.chain
        if chain.scalars:
            products = [chain.product(way) for way in chain.listed]
            total = self.result if chain.sum_agrees is not False else number(sum(products))
            return [FormulaRow([self.head, _added(map(number, products)), total])]
        if chain.sum_agrees is False:
            return []
        every = chain.contributions()
        flows = [every[at] for at in dict.fromkeys(way[-2] for way in chain.listed)]
        if size(chain.input) <= SMALL and all(flow is not None for flow in flows):
            return [FormulaRow([self.head, _added(map(self.shown, flows)), self.result])]
        return [FormulaRow([self.head, word(f"the sum of the contributions of {len(flows)} values"), self.result])]

    def _rule(self) -> FormulaRow:
        # Return only the last step of the chain rule, with a term for each consumer of the value, because there are too
        # many paths to list.
        chain, start, end = self.chain, self.chain.between.start, self.chain.between.end
        consumers = list(chain.contributions())
        before = {at: [self.partial(start, at)] if at != start else [] for at in consumers}
        terms = [
            _added(self._product([*before[at], self.local(at, end)]) for at in consumers),
            _added(self._product([*before[at], self.formula(chain.factors[at, end])]) for at in consumers),
        ]
        if chain.scalars:
            terms.append(
                _added(apply("times", number(chain.totals[at]), number(chain.numbers[at, end])) for at in consumers)
            )
        given = chain.scalars and chain.sum_agrees is False
        return FormulaRow([self.head, *terms, number(chain.totals[end]) if given else self.result])

    # Methods for the rows below the equations.

    def factor_rows(self) -> list[FormulaRow]:
        """The factors between tensors that have a formula, each with its numbers or their magnitude."""
        return [
            FormulaRow([self.partial(*pair), self.formula(factor), self.in_numbers(factor) or self._magnitude(factor)])
            for pair, factor in self.chain.factors.items()
            if factor.tree is not None and not self.chain.scalars
        ]

    def _magnitude(self, factor: Factor) -> Tree:
        elements = size(self.chain.entries[factor.of])
        shape = sizes(self.chain.entries[factor.of].shape or ())
        sampled = f" at {factor.numbers.size:,} of {elements:,} elements" if factor.numbers.size < elements else ""
        with numpy.errstate(all="ignore"):
            rms, largest = math.sqrt(float(numpy.mean(factor.numbers**2))), float(numpy.max(numpy.abs(factor.numbers)))
        return word(f"{shape} rms {rms:.3g} max {largest:.3g}{sampled}")

    def steps(self) -> list[FormulaRow]:
        """The formula or expression of each value on the paths, with its line."""
        return [row for at in self.chain.between.order if at != self.chain.between.end for row in self._step(at)]

    def _step(self, at: int) -> list[FormulaRow]:
        source, known = self.chain.entries[at].source, self.chain.formulas[at]
        if source is None:
            return []
        where = word(place(source.file, source.line))
        if isinstance(known, CheckedFormula):
            return [FormulaRow([self.name(at), self.named(known.tree, known.symbols)], where=where)]
        if source.expression:
            return [FormulaRow([self.name(at), word(" ".join(source.expression.split()))], where=where)]
        return [FormulaRow([word(source.text)], self.name(at), where)]

    def values(self) -> list[Tree]:
        """The point at which the derivative is taken, if it consists of few numbers."""
        chain = self.chain
        if not chain.scalars or len(chain.involved) > MOST_VALUES:
            return []
        numbers = {at: _number(chain.entries[at]) for at in sorted(chain.involved)}
        shown = [apply("is", self.name(at), Leaf("number", text)) for at, text in numbers.items() if text is not None]
        return [apply("beside", word("at "), Apply("listed", tuple(shown)))] if shown else []

    def renamed(self) -> list[Tree]:
        """The full names of entries that have short names in the formulas."""
        entries = self.chain.entries
        shown = [
            f"{name} is {entries[at].name}"
            for at, name in sorted(self.chain.labels.items())
            if name != entries[at].name
        ]
        return [word("here " + listed(shown, MOST_VALUES))] if shown else []


def word(text: str) -> Tree:
    return Leaf("word", text)


def number(value: float) -> Tree:
    """Return the tree of a recorded number.

    A negative number is a negation, so that sums and products get the right signs.
    """
    return apply("neg", number(-value)) if value < 0 else Leaf("number", rounded(value))


def _elided(terms: Sequence[Tree]) -> tuple[Tree, ...]:
    # The terms; if there are too many, only the first and last ones with dots in between.
    if len(terms) <= MOST_FACTORS:
        return tuple(terms)
    return (*terms[:ENDS], apply("dots"), *terms[-ENDS:])


def _added(terms: Iterable[Tree]) -> Tree:
    return Apply("total", _elided(list(terms)))


def _first(rows: Sequence[FormulaRow]) -> list[FormulaRow | Tree]:
    # The first rows. If there are more, a line with their number follows.
    more = [word(f"and {len(rows) - MOST_LINES:,} more")] if len(rows) > MOST_LINES else []
    return [*rows[:MOST_LINES], *more]


def _number(entry: Entry) -> str | None:
    if entry.status is GradStatus.NOT_TENSOR:
        return plain_text(entry.held)
    try:
        return rounded(single(entry.value))
    except (Unwritten, BackprobeError):
        return None
