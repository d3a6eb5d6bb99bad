"""Calls of JAX's own transformations: they are traced as JAX does, and then run so that inner values become visible.

A value inside a loop, branch or checkpoint exists only while JAX traces it. Such a call is therefore traced to a jaxpr
that includes the taps. Then the jaxpr is run equation by equation at the level of the program itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax

from backprobe.backends.jax import private
from backprobe.backends.jax.control_flow import ENTERED, TapSite, keys_inside, sites
from backprobe.backends.jax.primitives import TAPS, Tap, concrete, peek_p, tap_p


def trace(
    function: Callable[..., Any], args: Any, kwargs: Any, goes_in: Callable[[Any, Any], None]
) -> tuple[Any, Callable[[Sequence[Any]], Any], list[Any]]:
    """Return the jaxpr of a call, a function that makes the call's result from the jaxpr's outputs, and the arrays on
    which to run the jaxpr.

    Only arguments that are already traced become inputs of the jaxpr. All others keep their numbers, as they would
    without a probe. ``goes_in`` is called with each array and the tracer that represents it inside the jaxpr.
    """
    leaves, tree = jax.tree.flatten((args, kwargs))
    places = [at for at, leaf in enumerate(leaves) if isinstance(leaf, jax.core.Tracer)]

    def call(*arrays: Any) -> Any:
        given = list(leaves)
        for at, array in zip(places, arrays, strict=True):
            goes_in(leaves[at], array)
            given[at] = array
        own_args, own_kwargs = jax.tree.unflatten(tree, given)
        return function(*own_args, **own_kwargs)

    arrays = [leaves[at] for at in places]
    closed, shape = jax.make_jaxpr(call, return_shape=True)(*arrays)
    structure = jax.tree.structure(shape)
    return closed, lambda outputs: jax.tree.unflatten(structure, outputs), arrays


@dataclass(frozen=True)
class Staged:
    """Runs a traced call at the level of the program itself.

    ``inlined`` names the operations that are replaced by their contents. ``zero`` makes a tapped zero for a tap, from
    the shape of its value; the zero perturbs the value. ``settle`` is called with the tensor that represents a tap's
    value from then on.
    """

    level: Any
    zero: Callable[[int, Any], Any]
    settle: Callable[[Tap, Any], None]
    inlined: Sequence[str]

    def run(self, jaxpr: Any, inputs: Sequence[Any]) -> list[Any]:
        """Return the outputs of a jaxpr, whose taps then represent values of the program."""
        return private.evaluated(jaxpr, inputs, self._equation)

    def _equation(self, equation: Any, inputs: list[Any]) -> list[Any]:
        if equation.primitive in (tap_p, peek_p):
            return self._tapped(equation, inputs)
        if not keys_inside(equation):
            return private.bind(equation, inputs)
        if equation.primitive.name in self.inlined:
            return self.run(private.inner_jaxprs(equation)[0], inputs)
        if equation.primitive.name == "cond" and not isinstance(concrete(self.level, inputs[0]), jax.core.Tracer):
            return self._take_branch(equation, inputs)
        return self._enter(equation, inputs)

    def _tapped(self, equation: Any, inputs: list[Any]) -> list[Any]:
        # Run a tap outside of all loops, which belongs to the program itself.
        tap = TAPS.get(equation.params["tap_key"])
        if tap is not None:
            tap.opaque = None
            tap.level, tap.ran, tap.axes = self.level, None, ("batch",) * equation.params["batch"]
        made = private.bind(equation, inputs)
        if tap is not None:
            self.settle(tap, made[0])
        return made

    def _take_branch(self, equation: Any, inputs: list[Any]) -> list[Any]:
        # Run only the branch that is taken, as part of the program, because the index is known.
        index, *rest = inputs
        branches = equation.params["branches"]
        taken = min(max(int(concrete(self.level, index)), 0), len(branches) - 1)
        for key, site in sites(equation).items():
            self._place(TAPS[key], site)
            TAPS[key].ran = False
        return self.run(branches[taken], rest)

    def _enter(self, equation: Any, inputs: list[Any]) -> list[Any]:
        # Run a loop, checkpoint or undecided branch so that its inner values become further outputs.
        found = sites(equation)
        for key, site in found.items():
            self._place(TAPS[key], site)
        perturbations = {key: self.zero(key, site.like) for key, site in found.items() if not site.opaque}
        if not perturbations:
            return private.bind(equation, inputs)
        outputs, values = ENTERED[equation.primitive.name](equation, inputs, perturbations)
        for key, (value, ran) in values.items():
            TAPS[key].outside, TAPS[key].value = value, concrete(self.level, value)
            TAPS[key].ran = concrete(self.level, ran)
        return outputs

    def _place(self, tap: Tap, site: TapSite) -> None:
        tap.level, tap.lost, tap.axes, tap.opaque = self.level, False, site.axes, site.opaque
