"""Finds inputs of a function whose derivative stops on every path to the output, and the operations that stop it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, Literal

from backprobe.backends.jax import private
from backprobe.backends.jax.linear_flow import NONE, Keys, Walk, key_of
from backprobe.backends.user_lines import users_line_of
from backprobe.record.source import Source


def stopping(closed: ClosedJaxpr, inputs: Collection[int]) -> dict[int, list[tuple[str, Source | None]]]:
    """Return, for each of these input positions, the operations at which its derivative stops.

    A position is left out if its derivative reaches an output on some path. If values are kept in references, their
    flow is unknown, and nothing is returned.
    """
    read = [var.aval for equation in private.equations(closed.jaxpr) for var in equation.invars]
    if not all(isinstance(aval, jax.core.ShapedArray) for aval in read):
        return {}
    walk = _Derivatives(lambda equation: False)
    given = [frozenset([at] if at in inputs else ()) for at in range(len(closed.jaxpr.invars))]
    arriving = NONE.union(*walk.through(closed.jaxpr, given))
    found: dict[int, list[tuple[str, Source | None]]] = {}
    for equation, key in dict.fromkeys(walk.stopped):
        if key not in arriving:
            found.setdefault(key, []).append((equation.primitive.name, _line_of(equation)))
    return found


def lines_of_constants(closed: ClosedJaxpr) -> dict[int, Source]:
    """Return the line that first reads each array which the function takes from elsewhere, by the array's id."""
    held = {id(var): id(array) for var, array in zip(closed.jaxpr.constvars, closed.consts, strict=True)}
    read = [(held.get(id(var)), equation) for equation in closed.jaxpr.eqns for var in equation.invars]
    lines = [(array, _line_of(equation)) for array, equation in reversed(read) if array is not None]
    return {array: line for array, line in lines if line is not None}


def _line_of(equation: Any) -> Source | None:
    traceback = equation.source_info.traceback
    return None if traceback is None else users_line_of(traceback.as_python_traceback())


class _Derivatives(Walk):
    # Follows values whose derivative may be nonzero, also through loops and operations with custom rules.
    def _equation(self, equation: Any, known: dict[Any, Keys]) -> list[Keys]:
        given = [key_of(var, known) for var in equation.invars]
        if not any(given):
            return [NONE] * len(equation.outvars)
        inside = self._entered(equation, given)
        found = inside or ([NONE] * len(equation.outvars) if is_flat(equation, given) else self._from(equation, known))
        found = [
            each if jnp.issubdtype(var.aval.dtype, jnp.inexact) else NONE
            for each, var in zip(found, equation.outvars, strict=True)
        ]
        lost = NONE.union(*given) - NONE.union(*found) if inside is None else NONE
        self.stopped += [(equation, key) for key in sorted(lost)]
        return found

    def _entered(self, equation: Any, given: list[Keys]) -> list[Keys] | None:
        if equation.primitive.name != private.WHILE:
            return super()._entered(equation, given)
        own, condition = equation.params["body_nconsts"], equation.params["cond_nconsts"]
        return self._looped(equation.params["body_jaxpr"], given[condition:], own, len(given) - condition - own)


def is_flat(equation: Any, given: Sequence[object]) -> bool:
    """Is the tangent of each output 0 by JAX's own rule, for any operands? False if that is not known. ``given`` says
    which operands have a tangent.
    """
    zeros = [
        var.val if isinstance(var, Literal) else jnp.zeros(var.aval.shape, var.aval.dtype) for var in equation.invars
    ]
    flowing = [at for at, keys in enumerate(given) if keys]

    def run(*some: Any) -> Any:
        held = dict(zip(flowing, some, strict=True))
        return private.bind(equation, [held.get(at, zero) for at, zero in enumerate(zeros)])

    some = [zeros[at] for at in flowing]
    try:
        jaxpr = jax.make_jaxpr(lambda *tangents: jax.jvp(run, some, list(tangents))[1])(*some).jaxpr
    except Exception:  # noqa: BLE001  # it has no such rule, or cannot be bound by itself: nothing is known then
        return False
    return private.read_by(jaxpr).isdisjoint(map(id, jaxpr.invars))
