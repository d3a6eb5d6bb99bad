"""The linearized program: which marked values flow into which others, and the gradient of each.

``jax.linearize`` returns the program's derivative as a jaxpr of linear equations, in which each tapped value has left a
mark. If that jaxpr is transposed, each mark stores the cotangent that arrives, so one backward pass gives all
gradients. For local partials, the marks are held constant and perturbed one at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from copy import copy
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import Literal

from backprobe.backends.jax import private
from backprobe.backends.jax.linear_flow import flows
from backprobe.backends.jax.primitives import mark_p, within_p
from backprobe.record.graph import reached


class LinearProgram:
    """The derivative of a program at one point. It is linear in the inputs and in perturbations at the marks."""

    def __init__(
        self, derivative: Callable[..., Any], inputs: Sequence[Any], outputs: int, captured: Collection[int]
    ) -> None:
        self.jaxpr, constants = private.linear_jaxpr(derivative, inputs, outputs)
        self.constants = dict(zip(self.jaxpr.constvars, constants, strict=True))
        self.made_by = {
            var: (at, output)
            for at, equation in enumerate(self.jaxpr.eqns)
            for output, var in enumerate(equation.outvars)
        }
        self.marks = {
            equation.params["tap_key"]: at
            for at, equation in enumerate(self.jaxpr.eqns)
            if equation.primitive is mark_p and equation.params["tap_key"] in captured
        }
        self.marked = {at: key for key, at in self.marks.items()}
        self.connected = private.without_dead_code(self.jaxpr, 0)  # only the equations that lead to the output

    def of_output(self, at: int) -> LinearProgram:
        """Return the same program for the gradients of another of its outputs."""
        other = copy(self)
        for known in ("live", "_untrained"):
            vars(other).pop(known, None)
        other.connected = private.without_dead_code(self.jaxpr, at)
        return other

    def of_captured(self, captured: Collection[int]) -> LinearProgram:
        """Return the same program with only the marks of these values. Gradients flow through all other values as if
        they had no mark.
        """
        other = copy(self)
        vars(other).pop("live", None)
        vars(other).pop("flows", None)
        other.marks = {key: at for key, at in self.marks.items() if key in captured}
        other.marked = {at: key for key, at in other.marks.items()}
        return other

    @cached_property
    def live(self) -> list[int]:
        """The marks that the output depends on, in the order in which backward reaches them."""
        marks = [equation.params["tap_key"] for equation in self.connected.eqns if equation.primitive is mark_p]
        return [key for key in reversed(marks) if key in self.marks]

    def leaves_reached(self, key: int) -> bool:
        """Do all inputs from which a marked value is computed get a gradient, on any path?

        Returns False for a value inside a loop, branch or checkpoint, because this is unknown there.
        """
        return key in self.marks and self._before(key) not in self._untrained

    @cached_property
    def _untrained(self) -> set[Any]:
        # Return the variables that depend on an input which the output does not depend on.
        used = {id(var) for equation in self.connected.eqns for var in equation.invars}
        used |= {id(var) for var in self.connected.outvars}
        places = range(1, len(self.jaxpr.invars))  # the first input is the zero from which other zeros are made
        found = {self.jaxpr.invars[at] for at in places if id(self.connected.invars[at]) not in used}
        for equation in self.jaxpr.eqns:
            found.update(
                var for at, var in enumerate(equation.outvars) if not found.isdisjoint(private.sources(equation, at))
            )
        return found

    @cached_property
    def flows(self) -> Mapping[int, Collection[int]]:
        """For each marked value by key: the marked values that flow into it without passing another mark."""
        return flows(self.jaxpr, self.marks)

    @cached_property
    def inside(self) -> frozenset[int]:
        """The marked values inside loops, branches and checkpoints. They cannot be held constant one by one."""
        within = (one.params["tap_key"] for one in private.equations(self.jaxpr) if one.primitive is within_p)
        return frozenset(within)

    def gradients(self, cotangent: Any) -> tuple[dict[int, Any], list[Any]]:
        """Run backward from the output, and return the gradient of each live mark and each input."""
        found: dict[int, Any] = {}

        def keeping(equation: Any) -> Mapping[str, Any] | None:
            return {"gradients": found} if equation.primitive is mark_p else None

        constants = [self.constants[var] for var in self.connected.constvars]
        inputs = private.run_backward(private.with_params(self.connected, keeping), constants, cotangent)
        return {key: found[key] if key in found else jnp.zeros_like(self.like(key)) for key in self.live}, inputs

    def local(self, key: int, sources: Sequence[int]) -> Callable[[Any], Sequence[Any]]:
        """Return a function that maps a cotangent of a marked value to the contributions along its edges to these
        sources.
        """
        needed = self._needed(self._before(key))

        def derivative(perturbations: Mapping[int, Any]) -> Any:
            return self._run(needed, perturbations, self._before(key))

        back = jax.linear_transpose(derivative, {source: self.like(source) for source in sources})

        def flow(cotangent: Any) -> Sequence[Any]:
            (found,) = back(cotangent)
            return [found[source] for source in sources]

        return flow

    def _before(self, key: int) -> Any:
        return self.jaxpr.eqns[self.marks[key]].invars[0]

    def like(self, key: int) -> jax.ShapeDtypeStruct:
        """Return the shape and dtype of a marked value."""
        aval = self.jaxpr.eqns[self.marks[key]].outvars[0].aval
        return jax.ShapeDtypeStruct(aval.shape, aval.dtype)

    def _needed(self, wanted: Any) -> list[int]:
        # Return the equations on which a variable depends, in order. The search stops at marks.
        def sources(var: Any) -> Sequence[Any]:
            at, output = self.made_by.get(var, (None, 0))
            return () if at is None or at in self.marked else private.sources(self.jaxpr.eqns[at], output)

        found = reached([] if isinstance(wanted, Literal) else [wanted], sources)
        return sorted({self.made_by[var][0] for var in found if var in self.made_by})

    def _run(self, needed: Sequence[int], perturbations: Mapping[int, Any], output: Any) -> Any:
        # Return the change of the output if these perturbations are added at the marks.
        def run(equation: Any, given: list[Any]) -> list[Any]:
            own = perturbations.get(equation.params["tap_key"]) if equation.primitive is mark_p else None
            return private.bind(equation, given) if own is None else [given[0] + own]

        return private.variables([output], [self.jaxpr.eqns[at] for at in needed], self.constants, run)[0]
