"""The linearized program: which marked values flow into which, and what flows back to each.

``jax.linearize`` gives the program's derivative as a jaxpr of linear equations, in which every tapped value has left a
mark. Perturbing the marks and transposing gives all gradients in one backward pass; holding the marks still and
perturbing them one at a time gives the local partials.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property
from typing import Any

import jax
from jax.extend.core import Literal

from backprobe.backends.jax import private
from backprobe.backends.jax.primitives import mark_p
from backprobe.record.graph import reached


class LinearProgram:
    """The derivative of a program at the point where it ran: linear in its inputs and in what its marks are given."""

    def __init__(self, derivative: Callable[..., Any], inputs: Sequence[Any], captured: Collection[int]) -> None:
        closed = jax.make_jaxpr(derivative)(*inputs)
        self.jaxpr, self.inputs = closed.jaxpr, list(inputs)
        self.constants = dict(zip(self.jaxpr.constvars, closed.consts, strict=True))
        self.made_by = {
            var: (at, output)
            for at, equation in enumerate(self.jaxpr.eqns)
            for output, var in enumerate(equation.outvars)
        }
        self.marks = {
            equation.params["key"]: at
            for at, equation in enumerate(self.jaxpr.eqns)
            if equation.primitive is mark_p and equation.params["key"] in captured
        }
        self.output = self.jaxpr.outvars[0]  # the others lead nowhere

    @cached_property
    def live(self) -> list[int]:
        """The marks that the output depends on, in the order in which backward comes to them."""
        needed = set(self._needed([self.output], stop=()))
        return [key for key, at in sorted(self.marks.items(), key=lambda pair: -pair[1]) if at in needed]

    def flows_into(self, key: int) -> list[int]:
        """The marks that a marked value depends on with no other between."""
        stop = self.marks.values()
        reached = self._needed([self._before(key)], stop)
        key_at = {at: key for key, at in self.marks.items()}
        return [key_at[at] for at in reached if at in key_at]

    def gradients(self, cotangent: Any) -> dict[int, Any]:
        """What flows back from the output to each live mark."""
        needed = self._needed([self.output], stop=())

        def derivative(inputs: Sequence[Any], perturbations: Mapping[int, Any]) -> Any:
            return self._run(needed, inputs, perturbations, self.output)

        back = jax.linear_transpose(derivative, self.inputs, {key: self.like(key) for key in self.live})
        found: dict[int, Any] = back(cotangent)[1]
        return found

    def local(self, key: int, sources: Sequence[int]) -> Callable[[Any], Sequence[Any]]:
        """From a cotangent of a marked value to what flows along its edges from these sources, and no further."""
        needed = self._needed([self._before(key)], self.marks.values())

        def derivative(perturbations: Mapping[int, Any]) -> Any:
            return self._run(needed, (), perturbations, self._before(key))

        back = jax.linear_transpose(derivative, {source: self.like(source) for source in sources})

        def flow(cotangent: Any) -> Sequence[Any]:
            (found,) = back(cotangent)
            return [found[source] for source in sources]

        return flow

    def _before(self, key: int) -> Any:
        return self.jaxpr.eqns[self.marks[key]].invars[0]

    def like(self, key: int) -> jax.ShapeDtypeStruct:
        """Shape and dtype of a marked value."""
        aval = self.jaxpr.eqns[self.marks[key]].outvars[0].aval
        return jax.ShapeDtypeStruct(aval.shape, aval.dtype)

    def _needed(self, wanted: Sequence[Any], stop: Collection[int]) -> list[int]:
        """The equations that these variables depend on, in order; what those to stop at depend on is not looked for."""
        stop = set(stop)

        def sources(var: Any) -> Sequence[Any]:
            at, output = self.made_by.get(var, (None, 0))
            return () if at is None or at in stop else private.sources(self.jaxpr.eqns[at], output)

        found = reached([var for var in wanted if not isinstance(var, Literal)], sources)
        return sorted({self.made_by[var][0] for var in found if var in self.made_by})

    def _run(self, needed: Sequence[int], inputs: Sequence[Any], perturbations: Mapping[int, Any], output: Any) -> Any:
        """The linear program with something added at its marks; without inputs, of that alone."""

        def run(equation: Any, given: list[Any]) -> list[Any]:
            own = perturbations.get(equation.params["key"]) if equation.primitive is mark_p else None
            return private.bind(equation, given) if own is None else [given[0] + own]

        values = {**self.constants, **dict(zip(self.jaxpr.invars, inputs, strict=False))}
        return private.variables([output], [self.jaxpr.eqns[at] for at in needed], values, run)[0]
