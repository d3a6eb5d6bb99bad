"""A derivation as rows: the paths with their products, their sum, and the line that computed each value."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from backprobe.backends.tensors import Arrays
from backprobe.derive.chain import Chain, pairs
from backprobe.derive.factors import Factor, single, size
from backprobe.derive.formula import Unwritten
from backprobe.derive.notation import ATOM, MINUS, PRODUCT, Notation, Row, Written, bracketed, rounded, write
from backprobe.errors import BackprobeError
from backprobe.findings.phrasing import listed, place
from backprobe.record.entries import Entry, GradStatus, plain_text
from backprobe.show.text import SMALL, describe

MOST_FACTORS = 24  # of a product, or terms of a sum, that are written in full
ENDS = 4  # factors at either end of a product that is not
MOST_LINES = 40  # steps and factors that are shown
MOST_NOTES = 12
MOST_VALUES = 12


class Page:
    """The rows of a derivation in one notation."""

    def __init__(self, chain: Chain, arrays: Arrays, notation: Notation) -> None:
        self.chain, self.arrays, self.notation = chain, arrays, notation

    def rows(self) -> list[Row]:
        """The derivative: the paths, and their sum."""
        chain, between = self.chain, self.chain.between
        if between.start == between.end:
            # the output with respect to itself: 1, or the given cotangent
            return [self._row([self.head(), *([] if chain.seed == 1 else [self._seed()]), self.result()])]
        if not between.count:
            return [Row([self.head(), self.result()])]
        if len(chain.listed) == 1:
            rows = [self._row([self.head(), *self._path(chain.listed[0])])]
        elif chain.listed:
            rows = [*map(self._along, chain.listed), *self._sum()]
        else:
            rows = [self._rule()]
        if chain.sum_agrees is False:
            given = self.notation.word("the recorded partials give")
            rows = [Row(row.terms[row.terms[0] == self.head() :], row.about or given) for row in rows]
            rows.append(Row([self.head(), self.result()], self.notation.word("recorded")))
        return rows

    def head(self) -> str:
        return self._with_seed([self.partial(self.chain.between.start, self.chain.between.end)])

    def partial(self, of: int, to: int) -> str:
        return self.notation.partial(self.chain.labels[of], self.chain.labels[to])

    def local(self, of: int, to: int) -> str:
        """The symbol of a local partial: marked where other paths make the total derivative a different one."""
        symbol = self.partial(of, to)
        return self.notation.direct(symbol) if self.chain.is_one_of_several(of, to) else symbol

    def result(self) -> str:
        """The derivative: a plain number where all values have one element, whatever their shape."""
        total = self.chain.total
        return self.notation.number(self._shown(single(total) if self.chain.scalars else total))

    def _row(self, terms: Sequence[str], about: str = "") -> Row:
        """A row without repeated terms."""
        kept = [term for at, term in enumerate(terms) if not at or _bare(term) != _bare(terms[at - 1])]
        return Row(kept, about)

    def _seed(self) -> str:
        seed = self.chain.seed
        return self.notation.word("cotangent") if seed is None else self.notation.number(rounded(seed))

    def _with_seed(self, factors: Sequence[str]) -> str:
        seeded = factors if self.chain.seed == 1 else [self._seed(), *factors]
        return f" {self.notation.dot.strip()} ".join(self._elided(seeded))

    def _elided(self, factors: Sequence[str]) -> list[str]:
        if len(factors) <= MOST_FACTORS:
            return list(factors)
        return [*factors[:ENDS], self.notation.dots, *factors[-ENDS:]]

    # one path

    def _path(self, way: Sequence[int]) -> list[str]:
        """The product along a path: by names, as formulas, in numbers, and its value."""
        factors = [self.chain.factors[pair] for pair in pairs(way)]
        terms = [self._with_seed([self.local(*pair) for pair in pairs(way)]), self._formulas(factors)]
        return [*terms, *self._numbers(factors), *self._comes_to(way)]

    def _along(self, way: Sequence[int]) -> Row:
        names = [self.notation.name(self.chain.labels[at]) for at in way]
        return self._row(self._path(way), f" {self.notation.arrow} ".join(self._elided(names)))

    def _formulas(self, factors: Sequence[Factor]) -> str:
        return self._product([self.formula(factor) for factor in factors])

    def _product(self, factors: Sequence[Written]) -> str:
        if self.chain.seed != 1:
            factors = [(self._seed(), MINUS if (self.chain.seed or 0) < 0 else ATOM), *factors]
        if len(factors) == 1:
            return factors[0][0]
        texts = [
            text if not at and binding == MINUS else bracketed((text, binding), PRODUCT, self.notation)
            for at, (text, binding) in enumerate(factors)
        ]
        return self.notation.dot.join(self._elided(texts))

    def formula(self, factor: Factor) -> Written:
        """A factor as a formula, or else its recorded number, its name, or its Jacobian's shape."""
        chain = self.chain
        if factor.tree is not None:
            return write(factor.tree, [chain.labels[at] for at in factor.symbols], self.notation)
        if factor.number is not None:
            return self._signed(factor.number)
        of, to = chain.entries[factor.of], chain.entries[factor.wrt]
        partial = chain.edges[factor.of, factor.wrt].partial
        if size(of) == 1 and partial is not None and size(to) <= SMALL and "complex" not in (to.dtype or ""):
            return self.notation.number(self._shown(partial)), ATOM
        if size(of) == 1:
            return self.partial(factor.of, factor.wrt), ATOM
        return self.notation.jacobian(self.partial(factor.of, factor.wrt), _shape(of), _shape(to)), ATOM

    def _signed(self, number: float) -> Written:
        return self.notation.number(rounded(number)), MINUS if number < 0 else ATOM

    def _numbers(self, factors: Sequence[Factor]) -> list[str]:
        """The product in numbers, where each factor is small enough to be shown."""
        shown = [self.in_numbers(factor) for factor in factors]
        whole = [written for written in shown if written is not None]
        return [self._product(whole)] if len(whole) == len(shown) else []

    def in_numbers(self, factor: Factor) -> Written | None:
        if factor.number is not None:
            return self._signed(factor.number)
        if factor.numbers is not None and factor.numbers.size <= SMALL:
            from backprobe.backends.numpy import nested_text  # here, because it imports NumPy

            return self.notation.number(nested_text(factor.numbers.tolist())), ATOM
        partial = self.chain.edges[factor.of, factor.wrt].partial
        small = size(self.chain.entries[factor.of]) == 1 and size(self.chain.entries[factor.wrt]) <= SMALL
        return (self.notation.number(self._shown(partial)), ATOM) if small and partial is not None else None

    def _comes_to(self, way: Sequence[int]) -> list[str]:
        """The contribution of one path to the asked gradient, where it is known for this path alone."""
        chain = self.chain
        if len(chain.listed) == 1 and chain.sum_agrees is not False:
            return [self.result()]
        if chain.scalars:
            return [self._signed(chain.product(way))[0]]
        flow = chain.contributions()[way[-2]]
        alone = chain.between.counts[way[-2]] == 1 and flow is not None
        return [self.notation.number(self._shown(flow))] if alone else []

    # several paths

    def _sum(self) -> list[Row]:
        chain = self.chain
        if chain.scalars:
            products = [chain.product(way) for way in chain.listed]
            total = self.result() if chain.sum_agrees is not False else self._signed(sum(products))[0]
            return [self._row([self.head(), self._added([self._signed(each) for each in products]), total])]
        if chain.sum_agrees is False:
            return []
        every = chain.contributions()
        flows = [every[at] for at in dict.fromkeys(way[-2] for way in chain.listed)]
        if size(chain.input) <= SMALL and all(flow is not None for flow in flows):
            added = self._added([(self.notation.number(self._shown(flow)), ATOM) for flow in flows])
        else:
            added = self.notation.word(f"the sum of the contributions of {len(flows)} values")
        return [self._row([self.head(), added, self.result()])]

    def _rule(self) -> Row:
        """The rule at the asked value alone, where there are too many paths to list: one term for each consumer."""
        chain, end = self.chain, self.chain.between.end
        consumers = list(chain.contributions())
        terms = [self._added([self._rest(at, self.local(at, end)) for at in consumers])]
        terms.append(self._added([self._rest(at, self._formula_of(at, end)) for at in consumers]))
        if chain.scalars:
            numbers = [(self._product_of(chain.totals[at], chain.number(at, end)), PRODUCT) for at in consumers]
            terms.append(self._added(numbers))
        given = chain.scalars and chain.sum_agrees is False
        terms.append(self._signed(chain.totals[end])[0] if given else self.result())
        return self._row([self.head(), *terms])

    def _formula_of(self, of: int, to: int) -> str:
        return bracketed(self.formula(self.chain.factors[of, to]), PRODUCT, self.notation)

    def _rest(self, at: int, last: str) -> Written:
        """A term of the rule: the derivative with respect to a consumer, times its last factor."""
        chain = self.chain
        if at == chain.between.start:
            return self._with_seed([last]), PRODUCT
        return self.notation.dot.join([self._with_seed([self.partial(chain.between.start, at)]), last]), PRODUCT

    def _product_of(self, left: float, right: float) -> str:
        return self._signed(left)[0] + self.notation.dot + bracketed(self._signed(right), ATOM, self.notation)

    def _added(self, terms: Sequence[Written]) -> str:
        """A sum: a term that begins with a minus is subtracted."""
        texts = [text for text, _ in terms]
        if len(texts) > MOST_FACTORS:
            texts = [*texts[:ENDS], self.notation.dots, *texts[-ENDS:]]
        first, *rest = texts
        return first + "".join(f" - {text[1:]}" if text.startswith("-") else f" + {text}" for text in rest)

    # below the equations

    def factor_rows(self) -> list[Row]:
        """Between tensors: each factor that has a formula, with its numbers or their size."""
        if self.chain.scalars:
            return []
        rows = []
        for pair, factor in self.chain.factors.items():
            if factor.tree is not None:
                shown = self.in_numbers(factor)
                numbers = shown[0] if shown is not None else self.notation.word(self._magnitude(factor))
                rows.append(self._row([self.partial(*pair), self.formula(factor)[0], numbers]))
        return rows

    def _magnitude(self, factor: Factor) -> str:
        import numpy

        elements = size(self.chain.entries[factor.of])
        shape = "×".join(map(str, self.chain.entries[factor.of].shape or ()))
        sampled = f" at {factor.numbers.size} of {elements:,} elements" if factor.numbers.size < elements else ""
        with numpy.errstate(all="ignore"):
            rms, largest = math.sqrt(float(numpy.mean(factor.numbers**2))), float(numpy.max(numpy.abs(factor.numbers)))
        return f"{shape} rms {rms:.3g} max {largest:.3g}{sampled}"

    def steps(self) -> list[Row]:
        """The formula or expression of each value on the way, with its line."""
        return [
            row for at in self.chain.between.order if at != self.chain.between.end
            for row in [self._step(at, self.chain.entries[at])] if row is not None
        ]  # fmt: skip

    def _step(self, at: int, entry: Entry) -> Row | None:
        source, name = entry.source, self.notation.name(self.chain.labels[at])
        if source is None:
            return None
        where = self.notation.word(place(source.file, source.line))
        known = self.chain.formulas[at]
        if known is not None:
            formula = write(known.tree, [self.chain.labels[each] for each in known.symbols], self.notation)[0]
            return Row([name, formula], where=where)
        if source.expression:
            return Row([name, self.notation.word(" ".join(source.expression.split()))], where=where)
        return Row([self.notation.word(source.text)], name, where)

    def values(self) -> str:
        """The point at which the derivative is taken, where it is a few numbers."""
        chain = self.chain
        if not chain.scalars or len(chain.involved) > MOST_VALUES:
            return ""
        shown = []
        for at in sorted(chain.involved):
            number = _number(chain.entries[at])
            if number is not None:
                shown.append(f"{self.notation.name(chain.labels[at])} = {self.notation.number(number)}")
        return self.notation.word("at ") + self.notation.comma.join(shown) if shown else ""

    def renamed(self) -> str:
        """The full names of what short names in the formulas stand for."""
        own = {at: name for at, name in sorted(self.chain.labels.items()) if name != self.chain.entries[at].name}
        shown = [f"{name} is {self.chain.entries[at].name}" for at, name in own.items()]
        return self.notation.word("here " + listed(shown, MOST_VALUES)) if shown else ""

    def _shown(self, tensor: Any) -> str:
        return rounded(tensor) if isinstance(tensor, float) else describe(tensor, self.arrays)

    # all of it

    def written(self, notes: Sequence[str]) -> str:
        """The whole derivation, with these notes at its end."""
        notation, more = self.notation, len(notes) - MOST_NOTES
        shown = [*notes[:MOST_NOTES], *([f"and {more} more"] if more > 0 else [])]
        below = [self.values(), self.renamed(), *(notation.word(f"note: {note}") for note in shown)]
        equations = [notation.row(row) for row in self.rows()]
        lines = [notation.line(line) for line in below if line]
        return notation.page([equations, self._first(self.factor_rows()), self._first(self.steps()), lines])

    def _first(self, rows: Sequence[Row]) -> list[str]:
        """Rows as lines; of many the first ones, and how many more there are."""
        shown, more = [self.notation.row(row) for row in rows[:MOST_LINES]], len(rows) - MOST_LINES
        return shown if more <= 0 else [*shown, self.notation.line(self.notation.word(f"and {more:,} more"))]


def _bare(term: str) -> str:
    return term.replace(" ", "")


def _shape(entry: Entry) -> str:
    return str(entry.shape)


def _number(entry: Entry) -> str | None:
    if entry.status is GradStatus.NOT_TENSOR:
        return plain_text(entry.held_value)
    try:
        return rounded(single(entry.value))
    except (Unwritten, BackprobeError):
        return None
