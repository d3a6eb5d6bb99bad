"""Evaluates an entry's expression again from the recorded numbers, part by part, to find where NaN or Inf begins.

It does not matter whether the operations inside a line were recorded as entries of their own. If the evaluation does
not reproduce the recorded NaN and Inf, no births are reported. The exception is an expression that cannot be evaluated
as a whole, if one operand is certainly bad and the operation passes NaN and Inf on, as a sum does.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy

from backprobe.explain.nonfinite import arithmetic
from backprobe.explain.nonfinite.states import Badness, of_numbers
from backprobe.explain.nonfinite.terms import Term

Array = Any

SUPPOSED = (-1.0, 0.0, 1.0)
"""The numbers that unknown operands are replaced by, to find out whether the result depends on them."""


def _is_written_out(term: Term) -> bool:
    # Does the part contain only numbers that the program writes itself, as ``float("inf")`` does?
    return all(one.op or one.is_constant for one in term) and not any(one.at is not None for one in term)


def unknown_to_numpy(operation: str, args: Sequence[Any], words: Mapping[str, Any]) -> None:
    """Return None: the default of ``others``, for operations that NumPy does not have."""


class Computation:
    """A term, which is an expression as a tree, with the numbers of its parts.

    ``numbers`` is a function that returns the numbers of an entry, in their original dtype. ``others`` evaluates
    functions of the framework that have no equivalent in NumPy.
    """

    def __init__(
        self,
        term: Term,
        numbers: Callable[[int], Array],
        result: Array,
        framework: str,
        others: Callable[[str, Sequence[Any], Mapping[str, Any]], Any] = unknown_to_numpy,
    ) -> None:
        self.term = term
        self.result: Array = None if result is None else numpy.asarray(result)
        self._numbers, self._framework, self._others = numbers, framework, others
        # by identity: the key keeps the term alive, so that its identity is not reused
        self._known: dict[Term, Array] = {}

    def value(self, term: Term) -> Array:
        """The numbers of a part, or None if they are unknown."""
        if term not in self._known:
            self._known[term] = self._evaluated(term)
        return self._known[term]

    def _evaluated(self, term: Term) -> Array:
        if term.is_constant:
            return term.constant
        if not term.op:
            return None if term.at is None else self._numbers(term.at)
        if term.op == "chosen":
            taken = self._taken(term)
            return None if taken is None else self.value(taken)
        args = [self.value(one) for one in term.args]
        words = {word: self.value(one) for word, one in term.keywords.items()}
        unknown = [one for one in term.inputs if self.value(one) is None and not one.is_constant]
        large = [one for one in args if getattr(one, "size", 0) > arithmetic.MOST]
        return None if unknown or large else self._applied(term.op, args, words)

    def _applied(self, op: str, args: Sequence[Any], words: Mapping[str, Any]) -> Array:
        function = arithmetic.function(op, self._framework)
        is_called_otherwise = isinstance(function, numpy.ufunc) and (words or len(args) != function.nin)
        with numpy.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if function is None or is_called_otherwise:
                return self._others(op, args, words)
            try:
                made = function(*args, **words)
            except (TypeError, ValueError, IndexError, AttributeError, OverflowError, ZeroDivisionError):
                return self._others(op, args, words)  # the arguments are not in the form that NumPy expects
        # numbers computed without any array have Python's double precision
        is_plain = all(isinstance(one, int | float) for one in args)
        return made.item() if is_plain and isinstance(made, numpy.generic) else made

    def widened(self, term: Term, moved: float) -> Array:
        """The value of a part in a wider type, with its operands shifted by ``moved``; None if it is unknown."""
        args = [self.value(one) for one in term.args]
        if any(one is None for one in args):
            return None
        words = {word: self.value(one) for word, one in term.keywords.items()}
        made = self._applied(term.op, [arithmetic.wider(one, moved) for one in args], words)
        return numpy.asarray(made) if isinstance(made, numpy.ndarray | numpy.generic | float) else None

    def _taken(self, term: Term) -> Term | None:
        # The side of ``one if test else other`` that was evaluated, or None if the value of the test is unknown.
        test, one, other = term.args
        known = self.value(test)
        return None if known is None or numpy.size(known) != 1 else one if known else other

    def state(self, term: Term) -> Badness:
        """The state of a part: NaN, Inf or finite; UNKNOWN if it cannot be computed."""
        made = self.result if term is self.term else self.value(term)
        if term.op == "tuple":
            return max(map(self.state, term.args), default=Badness.FINITE)
        if made is None:
            return Badness.UNKNOWN
        array = numpy.asarray(made) if not isinstance(made, tuple | slice | str) else None
        return of_numbers(array) if array is not None and array.dtype.kind in "fc" else Badness.FINITE

    def is_bad(self, term: Term) -> bool:
        """Is a part certainly NaN or Inf, whatever the values of its unknown operands?"""
        state = self.state(term)
        if state is Badness.UNKNOWN and term.op in arithmetic.ABSORBING:
            return any(map(self.is_bad, term.args))
        return state.is_bad

    @cached_property
    def is_reproduced(self) -> bool:
        """Does the evaluation give NaN and Inf exactly where they were recorded?"""
        made = self._whole
        if made is None:
            return False
        nan, inf = numpy.isnan(made) == numpy.isnan(self.result), numpy.isinf(made) == numpy.isinf(self.result)
        return bool(nan.all()) and bool(inf.all())

    @cached_property
    def is_contradicted(self) -> bool:
        """Does an evaluation whose operands are operations themselves fail to give NaN and Inf where recorded?"""
        is_evaluated = any(one.op for one in self.term.inputs)
        return is_evaluated and self.value(self.term) is not None and not self.is_reproduced

    @cached_property
    def is_equal(self) -> bool:
        """Does the evaluation give the recorded numbers, except for small differences?"""
        return self._whole is not None and numpy.allclose(self._whole, self.result, 1e-3, 1e-6, equal_nan=True)

    @property
    def _whole(self) -> Array:
        # The result of the evaluation, or None if there is none, or if it is not floating point or complex, or has
        # another shape than the recorded result.
        made = self.value(self.term) if self.term.op else None
        if made is None or self.result is None or isinstance(made, tuple | slice | str):
            return None
        made = numpy.asarray(made)
        return made if made.dtype.kind in "fc" and made.shape == numpy.shape(self.result) else None

    # Methods for the places where NaN and Inf first occur.

    @cached_property
    def births(self) -> Sequence[Term]:
        """Parts with NaN or Inf that their operands do not have, in the order of evaluation; empty if unknown.

        Numbers that the program writes, such as ``inf``, come last.
        """
        if not self.is_reproduced and not any(map(self._absorbed, self.term.inputs)):
            return []
        found = list({one.text: one for one in reversed([*self._births(self.term, None)])}.values())[::-1]
        # A literal such as `inf` comes last: in `x * inf` with x = 0, the product 0 · Inf is the cause of the NaN.
        return sorted(found, key=_is_written_out)

    def _absorbed(self, term: Term) -> bool:
        return self.term.op in arithmetic.ABSORBING and self.value(self.term) is None and self.is_bad(term)

    def _births(self, term: Term, places: Array) -> Iterator[Term]:
        # Yield the births within a part, at the elements selected by a mask; None selects all elements.
        flowing = list(self._flowing(term, places))
        for one, there in flowing:
            if one.at is None:
                yield from self._births(one, there)
        worst = max((self._state_at(one, there) for one, there in flowing), default=Badness.FINITE)
        if self._is_made_here(term, places, flowing) or (flowing and self._state_at(term, places) > worst):
            yield term

    def _flowing(self, term: Term, places: Array) -> Iterator[tuple[Term, Array]]:
        # Yield the bad operands through which NaN and Inf can reach a part, each with a mask of the elements that do;
        # None if these are unknown.
        if term.op == "chosen":
            taken = self._taken(term)
            yield from self._at([(taken, None)] if taken is not None else [], places)
        elif term.op == "where" and len(term.args) == 3 and self.value(term.args[0]) is not None:
            mask = numpy.asarray(self.value(term.args[0]), bool)
            yield from self._at(((term.args[1], mask), (term.args[2], ~mask)), places)
        elif term.op in arithmetic.ELEMENTWISE:
            yield from self._at([(one, None) for one in term.inputs], places)
        else:
            yield from ((one, None) for one in term.inputs if self.is_bad(one))

    def _at(self, operands: Sequence[tuple[Term, Array]], places: Array) -> Iterator[tuple[Term, Array]]:
        for one, mask in operands:
            if not self.is_bad(one):
                continue
            value = self.value(one)
            bad = None if value is None else _both(_both(arithmetic.is_bad(value), mask), places)
            if bad is None or bad.any():
                yield one, bad if value is not None and bad is not None and bad.shape == numpy.shape(value) else None

    def _is_made_here(self, term: Term, places: Array, flowing: Sequence[tuple[Term, Array]]) -> bool:
        # Is the part NaN or Inf at an element where its operands are finite?
        if not flowing:
            return self.is_bad(term)
        own = self._own(term, places, flowing)
        return own is not None and bool(own.any())

    def _own(self, term: Term, places: Array, flowing: Sequence[tuple[Term, Array]]) -> Array:
        # Return a mask of the elements where the part is bad but all its operands are finite, or None if it is unknown.
        value = self.result if term is self.term else self.value(term)
        if term.op not in arithmetic.ELEMENTWISE or value is None:
            return None
        own = _both(arithmetic.is_bad(value), places)
        for one, _ in flowing:
            operand = self.value(one)
            finite = False if operand is None else ~arithmetic.is_bad(operand)
            if arithmetic.broadcast(numpy.shape(own), numpy.shape(finite)) is None:
                return None  # for example, the numbers are those of all examples of a vmap together
            own = own & finite
        return own

    def born(self, term: Term) -> Badness:
        """The state of a part (NaN, Inf, finite) where its operands are finite, if that is known, or overall."""
        value = self.result if term is self.term else self.value(term)
        own = self._own(term, None, [*self._flowing(term, None)])
        if own is None or not own.any() or numpy.shape(value) != own.shape:
            return self.state(term)
        return of_numbers(numpy.asarray(value)[own])

    def with_value(self, parts: Sequence[Term], made: Array) -> Computation:
        """The same computation with another value for some parts."""
        other = Computation(self.term, self._numbers, None, self._framework, self._others)
        other._known = dict.fromkeys(parts, made)
        whole = other.value(self.term)
        other.result = None if whole is None or isinstance(whole, tuple | slice | str) else numpy.asarray(whole)
        return other

    @cached_property
    def supposed(self) -> Sequence[Computation]:
        """The computation with several numbers tried for its unknown operands; only this computation if the operands
        matter.

        The operands do not matter if each of the numbers gives NaN and Inf exactly where they were recorded: then the
        known operands and the written numbers suffice.
        """
        unknown = [one for one in self.term if one.is_unknown and self.value(one) is None]
        if not unknown or self.result is None or self.result.dtype.kind != "f" or not self.term.op:
            return [self]
        found = []
        for number in SUPPOSED:
            made = self.with_value(unknown, numpy.full_like(self.result, number))
            made.result = self.result
            if not made.is_reproduced:
                return [self]
            found.append(made)
        return found

    def is_written(self, term: Term) -> bool:
        """Can the NaN or Inf of a part come from a number that the program writes in it, such as ``float("inf")``?

        The answer is no if the operands are finite there, or if the written numbers differ from the computed ones. It
        is yes for such a written number itself, and if this cannot be decided.
        """
        if term in self.births:
            return _is_written_out(term) or not self.is_of_finite(term)
        value = self.result if term is self.term else self.value(term)
        if not term.op or value is None or self.is_reproduced:
            return True
        numbers = [self.value(one) for one in term if _is_written_out(one)]
        written = [one for one in numbers if isinstance(one, float | numpy.floating) and not math.isfinite(one)]
        found = numpy.asarray(value)
        return not written or any((numpy.isnan(found) if math.isnan(one) else found == one).any() for one in written)

    def is_born_around(self, parts: Sequence[Term]) -> bool:
        """Does NaN or Inf begin in the parts of this expression that contain one of ``parts``?"""
        around = [one for one in self.term if one not in parts and not set(one).isdisjoint(parts)]
        return any(self.is_bad(one) and self.is_of_finite(one) for one in around)

    def is_of_finite(self, term: Term) -> bool:
        """Is a part NaN or Inf at an element where its operands are finite?"""
        flowing = list(self._flowing(term, None))
        return self._is_made_here(term, None, flowing)

    def _state_at(self, term: Term, places: Array) -> Badness:
        value = self.result if term is self.term else self.value(term)
        if value is None or places is None or numpy.shape(value) != places.shape:
            return self.state(term)
        return of_numbers(numpy.asarray(value)[places])

    def hidden(self) -> Iterator[Term]:
        """Yield parts inside the expression in which NaN or Inf begins, as in ``exp(x) / exp(x).sum()``.

        The whole may be finite.
        """
        found = {id(one): one for part in self.term for one in self._births(part, None) if self._is_inside(part)}
        yield from found.values()

    def _is_inside(self, part: Term) -> bool:
        return part is not self.term and bool(part.op) and self.is_bad(part)


def _both(one: Array, other: Array) -> Array:
    # Combine two masks by "and"; None stands for all elements.
    if one is None or other is None:
        return other if one is None else one
    try:
        return numpy.logical_and(one, other)
    except ValueError:
        return one
