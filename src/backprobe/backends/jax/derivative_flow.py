"""Inputs of a function whose derivative stops on every way to its output, and the operations at which it does."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, Literal

from backprobe.backends.jax import private
from backprobe.backends.jax.linear_flow import NONE, Keys, Walk, key_of
from backprobe.backends.user_lines import users_line_of
from backprobe.record.source import Source


def stopping(closed: ClosedJaxpr, inputs: Iterable[int]) -> dict[int, list[tuple[str, Source | None]]]:
    """By these positions of inputs, the operations at which the derivative stops; none of those of which it goes on.

    Where values are kept in references, it is not known where they go: nothing is returned.
    """
    if not all(isinstance(var.aval, jax.core.ShapedArray) for one in private.equations(closed.jaxpr)
               for var in one.invars):  # fmt: skip
        return {}
    walk, asked = _Derivatives(), set(inputs)
    given = [frozenset([at]) if at in asked else NONE for at in range(len(closed.jaxpr.invars))]
    arriving = NONE.union(*walk.through(closed.jaxpr, given))
    return {at: [(one.primitive.name, _line(one)) for one in walk.stopped[at]] for at in asked - arriving
            if walk.stopped.get(at)}  # fmt: skip


class _Derivatives(Walk):
    # Goes on where a derivative may be other than 0, also through loops and the operations of rules of their own.
    def __init__(self) -> None:
        super().__init__(lambda equation: False)
        self.stopped: dict[int, list[Any]] = {}

    def _equation(self, equation: Any, known: dict[Any, Keys]) -> list[Keys]:
        given = [key_of(var, known) for var in equation.invars]
        keys = NONE.union(*given)
        if not keys:
            return [NONE] * len(equation.outvars)
        found = self._entered(equation, given)
        is_whole = found is None
        if found is None:
            sources = (private.sources(equation, at) for at in range(len(equation.outvars)))
            found = [NONE.union(*(key_of(var, known) for var in each)) for each in sources]
            found = [NONE] * len(found) if _is_flat(equation, given) else found
        found = [each if jnp.issubdtype(var.aval.dtype, jnp.inexact) else NONE
                 for each, var in zip(found, equation.outvars, strict=True)]  # fmt: skip
        for key in keys - NONE.union(*found) if is_whole else ():
            stopped = self.stopped.setdefault(key, [])
            stopped += [equation] * (equation not in stopped)
        return found

    def _entered(self, equation: Any, given: list[Keys]) -> list[Keys] | None:
        if equation.primitive.name != private.WHILE:
            return super()._entered(equation, given)
        params = equation.params
        own, condition = params["body_nconsts"], params["cond_nconsts"]
        return self._looped(params["body_jaxpr"], given[condition:], own, len(given) - condition - own)


def _is_flat(equation: Any, given: Sequence[Keys]) -> bool:
    # Is the tangent of each output 0 whatever the operands are, by JAX's own rule?
    flowing = [var for var, keys in zip(equation.invars, given, strict=True) if keys]

    def tangents(*numbers: Any) -> Any:
        def run(*some: Any) -> Any:
            held = dict(zip(flowing, some, strict=True))
            return private.bind(equation, [held.get(var, _zeros(var)) for var in equation.invars])

        return jax.jvp(run, [_zeros(var) for var in flowing], list(numbers))[1]

    try:
        jaxpr = jax.make_jaxpr(tangents)(*map(_zeros, flowing)).jaxpr
    except Exception:  # noqa: BLE001  # it has no such rule, or cannot be bound by itself: nothing is known then
        return False
    return private.read_by(jaxpr).isdisjoint(map(id, jaxpr.invars))


def _zeros(var: Any) -> Any:
    return var.val if isinstance(var, Literal) else jnp.zeros(var.aval.shape, var.aval.dtype)


def _line(equation: Any) -> Source | None:
    traceback = equation.source_info.traceback
    return None if traceback is None else users_line_of(traceback.as_python_traceback())
