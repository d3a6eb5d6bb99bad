"""Finds why a gradient became NaN or Inf, from the numbers that the parts of a line were computed with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy

from backprobe.explain.nonfinite import loops, mechanism
from backprobe.explain.nonfinite.computation import Computation
from backprobe.explain.nonfinite.evidence import first_bad
from backprobe.explain.nonfinite.forward_births import ForwardPass
from backprobe.explain.nonfinite.states import Badness
from backprobe.explain.nonfinite.terms import Term, known_as
from backprobe.explain.nonfinite.text import Mechanism
from backprobe.record.nonfinite import LocalDerivative

WRITTEN_AS = {"reciprocal": ("div",), "pow": ("square",), "sigmoid": ("log_sigmoid",)}
"""For some of autograd's operation names, the names under which programs call these operations."""


@dataclass(frozen=True)
class Birth:
    """An operation in the backward of the entry ``owner`` that made NaN or Inf from a better gradient.

    ``operation`` is empty if it is unknown which operation of the line or module it was. ``wrt`` is the entry whose
    gradient it computed; None if that is unknown.
    """

    owner: int
    operation: str
    wrt: int | None
    given: Badness
    made: Badness
    others: tuple[int, ...] = ()  # other entries in whose backward the birth may have happened
    local: LocalDerivative | None = field(default=None, compare=False)  # the derivative that the framework used here
    decomposes: bool = field(default=False, compare=False)  # does the framework show that it decomposed a matrix?


@dataclass(frozen=True)
class BackwardWhy:
    """The cause of a birth, and the part of its line where it happened, if known."""

    mechanism: Mechanism | None = None
    part: Term | None = None
    hidden: Term | None = None  # a part that is NaN or Inf although the whole line is finite


class BackwardReasons:
    """Finds the causes of the births in backward of one record, given the births among its values."""

    def __init__(self, forward: ForwardPass) -> None:
        self.forward, self.known, self.entries = forward, forward.known, forward.entries
        self._whys: dict[Birth, BackwardWhy] = {}

    def why(self, birth: Birth) -> BackwardWhy:
        """The cause of a birth, found from the numbers that the parts of its line were computed with."""
        if birth not in self._whys:
            self._whys[birth] = self._found_out(birth)
        return self._whys[birth]

    def operand(self, birth: Birth) -> tuple[str, Any] | None:
        """The text and numbers of an operand: of ``wrt`` if the operation is applied to it, else of the first operand.

        Returns None if the part of the line is unknown. The numbers are None if they are unknown.
        """
        known, wrt, part = self.known, birth.wrt, self.why(birth).part
        term = part or known.term(birth.owner)
        is_direct = not term.args or any(one.at == wrt for one in term.args)
        if wrt is not None and is_direct:
            value = known.taken(known.numbers(wrt), wrt, birth.owner, self.example(birth.owner, wrt))
            return known.entries[wrt].name, value
        return None if part is None else (term.args[0].text, self.computation(birth.owner, wrt).value(term.args[0]))

    def computation(self, owner: int, wrt: int | None) -> Computation:
        """The computation of an entry; inside a vmap, for the example in which its backward made NaN or Inf."""
        known, example = self.known, self.example(owner, wrt)
        return known.computation(owner, lambda one: known.taken(known.numbers(one), one, owner, example))

    def example(self, owner: int, wrt: int | None) -> tuple[int, ...] | None:
        """Return the index of the vmap example in which backward made NaN or Inf, or None outside of a vmap.

        Loops have no such example, because each step passes its result on to the next.
        """
        known, axes = self.known, self.entries[owner].axes
        if not axes or loops.STEP in axes:
            return None
        is_inside = wrt is not None and self.entries[wrt].axes == axes
        grad = known.grad_numbers(wrt) if wrt is not None and is_inside else None
        return first_bad(grad, len(axes), known.grad_numbers(owner)) or known.example_of(owner)

    def _found_out(self, birth: Birth) -> BackwardWhy:
        computed = self.computation(birth.owner, birth.wrt)
        parts = [one for one in computed.term if self._may_be(birth, one)]
        for part in reversed(parts):  # outermost part first, because backward reaches it first
            found = self._received(birth, computed, part)
            if mechanism.poles(found) is not None:
                return BackwardWhy(mechanism.backward(found), part)
        hidden = next(computed.hidden(), None) if birth.made is Badness.NAN else None
        if hidden is not None and birth.owner not in self.known.bad_values:
            return BackwardWhy(self.forward.mechanism(computed, hidden, birth.owner), hidden=hidden)
        if birth.operation and len(parts) == 1:
            return BackwardWhy(mechanism.backward(self._received(birth, computed, parts[0])), parts[0])
        held = [one for one in computed.term if one.at is not None and one.at == birth.wrt]
        is_direct = len(held) == 1 and held[0] in computed.term.args
        # backward reaches the outermost operation first, and that operation reads a bad value
        reads_bad = any(one.op and computed.is_bad(one) for one in computed.term.args)
        is_outermost = not birth.operation and (is_direct or reads_bad)
        return BackwardWhy(mechanism.backward(self._received(birth, computed, computed.term if is_outermost else None)))

    def _may_be(self, birth: Birth, part: Term) -> bool:
        # Can this part of the line be the operation of the birth?
        if birth.operation:
            return part.op == known_as(birth.operation) or part.op in WRITTEN_AS.get(known_as(birth.operation), ())
        return part.op in mechanism.POLES and (birth.wrt is None or birth.wrt in part.leaves())

    def _received(self, birth: Birth, computed: Computation, part: Term | None) -> mechanism.Received:
        # Collect what is known about the operation of a birth, assuming that it is this part of the line.
        known, wrt = self.known, birth.wrt
        known_about: dict[str, Any] = {"whole": computed.result, "made": birth.made, "given": birth.given}
        if part is not None:
            operands = list(map(computed.value, part.args))
            result = computed.result if part is computed.term else computed.value(part)
            known_about |= {"operands": () if any(one is None for one in operands) else operands, "result": result}
        if wrt is not None:
            known_about |= self._gradients(birth, wrt, computed, part, known_about.get("operands", ()))
        operation = birth.operation if part is None else part.op
        return mechanism.Received(operation, is_seen=known.sees_operations, **known_about)

    def _gradients(
        self, birth: Birth, wrt: int, computed: Computation, part: Term | None, operands: Sequence[Any]
    ) -> dict[str, Any]:
        # Collect where the new gradient is bad. If the operation is the whole line, also the incoming gradient and the
        # operand, as far as they are known.
        known, owner, example = self.known, birth.owner, self.example(birth.owner, wrt)
        grad = known.taken(known.grad_numbers(wrt), wrt, owner, example)
        if grad is None:
            return {}
        found: dict[str, Any] = {"bad": ~numpy.isfinite(grad), "dtype": self.entries[wrt].dtype or ""}
        came = known.taken(known.grad_numbers(owner), owner, owner, example)
        places = [] if part is None else [nth for nth, one in enumerate(part.args) if one.at == wrt]
        if part is None or (part is computed.term and places):
            found |= {"value": known.taken(known.numbers(wrt), wrt, owner, example), "came": came}
            if part is not None and len(part.args) == 2 and part.args[0].at != part.args[1].at:
                found["wrt"] = places[0]
        elif part is computed.term and part.op in mechanism.PRODUCTS:
            found |= self._at_bad_operand(operands, came)
        return found

    def _at_bad_operand(self, operands: Sequence[Any], came: Any) -> dict[str, Any]:
        # Collect the gradient that reached the outermost operation of a line, if one of its operands is not finite.
        for one in map(numpy.asarray, operands):
            if came is not None and one.shape == came.shape and not numpy.isfinite(one).all():
                return {"bad": ~numpy.isfinite(one), "value": one, "came": came, "whole": None}
        return {}


def is_pole(why: Mechanism | None) -> bool:
    """Is the derivative of the operation not finite at this point?"""
    return why is not None and why.code in mechanism.POLE
