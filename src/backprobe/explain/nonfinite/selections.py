"""Selections that exclude numbers: by the branch of a ``where`` that is not taken, or by a mask with zeros.

The program computes the excluded numbers although their values do not matter, and they may be NaN or Inf.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any

import numpy

from backprobe.explain.nonfinite.evidence import Evidence
from backprobe.explain.nonfinite.terms import Term
from backprobe.record.entries import GradStatus
from backprobe.record.graph import reached

BY_INDEX = frozenset({"getitem", "boolean_mask", "masked_select"})
CASTS = frozenset({"float", "double", "half", "to", "cast", "type", "astype", "type_as"})


@dataclass(frozen=True)
class SelectedBranch:
    """A part ``term`` of the expression of the entry ``at`` that takes numbers from ``branch`` by a condition.

    The numbers are taken where the condition equals ``taken_where``. ``holds`` are the condition's values. ``is_all``
    is True if this selection alone excludes every bad element.
    """

    at: int
    term: Term
    branch: Term
    condition: Term
    taken_where: bool
    holds: Any
    is_all: bool = True

    @property
    def leaves_out(self) -> Any:
        """A mask of the elements at which the branch is not taken."""
        return self.holds != self.taken_where


class Selections:
    """Finds the selections of one record. ``followers`` are, for each entry, its consumers that have a gradient."""

    def __init__(self, known: Evidence, followers: Sequence[Sequence[int]]) -> None:
        self.known, self.followers = known, followers

    def that_leave_out(self, owner: int, wrt: int | None, part: Term | None) -> Iterator[SelectedBranch]:
        """Yield selections, nearest first, that exclude elements with a bad gradient.

        They are applied after the entry, or around a part of it.
        """
        behind = reached([owner], self.followers.__getitem__)
        for at in sorted(behind):
            for one in self._of(at):
                bad = self._bad(one, wrt)
                if self._holds(one, owner, part, behind) and (one.leaves_out & bad).any():
                    yield replace(one, is_all=wrt is None or not (bad & ~one.leaves_out).any() or bool(bad.all()))

    def _of(self, at: int) -> Iterator[SelectedBranch]:
        computed = self.known.computation(at)
        for term in computed.term:
            for branch, condition, taken_where in self._branches(term):
                holds = computed.value(condition)
                if holds is not None and (term.op == "where" or self._is_mask(condition, holds)):
                    yield SelectedBranch(at, term, branch, condition, taken_where, numpy.asarray(holds, bool))

    def _branches(self, term: Term) -> Iterator[tuple[Term, Term, bool]]:
        # Yield the branches that a term selects from, each with its condition and the truth value for which it is
        # taken.
        match term:
            case Term(op="where", args=(condition, one, other)):
                yield one, condition, True
                yield other, condition, False
            case Term(op="mul", args=(one, other)):
                yield one, other, True
                yield other, one, True
            case Term(args=(one, condition)) if term.op in BY_INDEX:
                yield one, condition, True

    def _is_mask(self, term: Term, numbers: Any) -> bool:
        # Is the condition boolean, or a name bound to zeros and ones that is not differentiated?
        array, inner = numpy.asarray(numbers), term if term.op or term.at is None else self.known.term(term.at)
        if array.dtype.kind == "b":
            return True
        is_named = "(" not in term.text or inner.op in CASTS
        is_constant = term.at is None or self.known.entries[term.at].status is not GradStatus.OK
        return is_named and is_constant and array.ndim > 0 and bool(numpy.isin(array, (0, 1)).all())

    def _holds(self, one: SelectedBranch, owner: int, part: Term | None, behind: Set[int]) -> bool:
        # Does the branch contain the value of the entry, or the given part of its expression?
        if one.at == owner:
            return part is not None and any(each is part for each in one.branch)
        return not behind.isdisjoint({each.at for each in one.branch} - {None, one.at})

    def _bad(self, one: SelectedBranch, wrt: int | None) -> Any:
        # Return a mask of the elements at which the gradient is bad; all elements if it is unknown.
        grad = None if wrt is None else self.known.grad_numbers(wrt)
        if grad is None or grad.shape != one.holds.shape:
            return numpy.ones(one.holds.shape, bool)
        return ~numpy.isfinite(grad)
