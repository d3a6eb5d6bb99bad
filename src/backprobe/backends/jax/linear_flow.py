"""Finds which marked values of a linear program flow into which others, through loops, branches and calls."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

from jax.extend.core import ClosedJaxpr, Literal

from backprobe.backends.jax import private
from backprobe.backends.jax.primitives import mark_p, peek_p, tap_p, within_p
from backprobe.record.graph import reached

Keys = frozenset[int]
NONE: Keys = frozenset()
GIVEN: Keys = frozenset([0])  # keys of taps start at 1


def flows(jaxpr: Any, captured: Collection[int]) -> dict[int, set[int]]:
    """Return, for each marked value by key, the marked values that flow into it without passing another mark.

    In a loop, these values belong to the same step, or to the previous step if it passes them to the next.
    """
    walk = Walk(lambda equation: equation.primitive in (mark_p, within_p) and equation.params["tap_key"] in captured)
    walk.through(jaxpr, [NONE] * len(jaxpr.invars))
    return walk.into


def computed_from(closed: ClosedJaxpr, given: Sequence[bool]) -> dict[int, bool]:
    """Return, for each marked value in a traced call by key, whether it is computed from any of these inputs.

    The constants count as inputs, and come first in ``given``.
    """
    walk = Walk(lambda equation: equation.primitive in (tap_p, peek_p))
    constants = len(closed.consts)
    known = [GIVEN if one else NONE for one in given]
    walk.through(closed.jaxpr, known[constants:], known[:constants])
    return {key: not GIVEN.isdisjoint(reached([key], lambda each: walk.into.get(each, ()))) for key in walk.into}


class Walk:
    """Walks through a jaxpr in order, and finds the marks from which each variable is computed. ``into`` keeps, for
    each mark, the marks from which its value is computed.
    """

    def __init__(self, is_mark: Callable[[Any], bool]) -> None:
        self.is_mark = is_mark
        self.into: dict[int, set[int]] = {}
        self.stopped: list[tuple[Any, int]] = []  # equations, and the marks whose flow they stop

    def through(self, jaxpr: Any, given: Iterable[Keys], constants: Iterable[Keys] = ()) -> list[Keys]:
        """Return the marks from which the outputs of a jaxpr are computed, given the marks of its inputs."""
        jaxpr = jaxpr.jaxpr if isinstance(jaxpr, ClosedJaxpr) else jaxpr
        known: dict[Any, Keys] = dict(zip(jaxpr.invars, given, strict=True))
        known.update(zip(jaxpr.constvars, constants, strict=False))
        for equation in jaxpr.eqns:
            known.update(zip(equation.outvars, self._equation(equation, known), strict=True))
        return [key_of(var, known) for var in jaxpr.outvars]

    def _equation(self, equation: Any, known: dict[Any, Keys]) -> list[Keys]:
        if self.is_mark(equation):
            key = equation.params["tap_key"]
            self.into.setdefault(key, set()).update(key_of(equation.invars[0], known) - {key})
            return [frozenset([key])]
        if any(map(self.is_mark, private.inner_equations(equation))):
            found = self._entered(equation, [key_of(var, known) for var in equation.invars])
            if found is not None:
                return found
        return self._from(equation, known)

    def _from(self, equation: Any, known: dict[Any, Keys]) -> list[Keys]:
        outputs = range(len(equation.outvars))
        return [NONE.union(*(key_of(var, known) for var in private.sources(equation, at))) for at in outputs]

    def _entered(self, equation: Any, given: list[Keys]) -> list[Keys] | None:
        # Return the marks of an equation's outputs, if the equation contains jaxprs; None for an unknown kind of
        # equation.
        inside = private.inner_jaxprs(equation)
        if equation.primitive.name == private.SCAN:
            return self._looped(inside[0], given, *private.scan_parts(equation.params))
        if equation.primitive.name == "cond":
            taken = [self.through(branch, given[1:]) for branch in inside]
            return [NONE.union(*each) for each in zip(*taken, strict=True)]
        return self.through(inside[0], given) if len(inside) == 1 and _takes(inside[0], given) else None

    def _looped(self, body: Any, given: list[Keys], constants: int, carried: int) -> list[Keys]:
        # Return the marks of a loop's outputs. Its body is walked repeatedly, until the marks of the carried values no
        # longer change.
        fixed, carry, along = given[:constants], given[constants : constants + carried], given[constants + carried :]
        while True:
            outputs = self.through(body, [*fixed, *carry, *along])
            handed = [first | last for first, last in zip(carry, outputs[:carried], strict=True)]
            if handed == carry:
                return outputs
            carry = handed


def key_of(var: Any, known: dict[Any, Keys]) -> Keys:
    return NONE if isinstance(var, Literal) else known.get(var, NONE)


def _takes(jaxpr: Any, given: Sequence[Keys]) -> bool:
    inner = jaxpr.jaxpr if isinstance(jaxpr, ClosedJaxpr) else jaxpr
    return len(inner.invars) == len(given)
