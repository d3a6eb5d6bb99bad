"""The inputs that each output of an equation depends on, through loops, branches and calls.

JAX gives zeros for what is not connected; whether a gradient is 0 or does not exist, only the program's structure says.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jax.extend.core import Literal

from backprobe.backends.jax import private

CALLS = ("jit", "pjit", "closed_call", "core_call", "checkpoint", "remat", "remat2")
"""Equations that run the one jaxpr in them on their own inputs."""

Sources = list[frozenset[int]]
"""For each output, the positions of the inputs that it depends on."""


class Dependence:
    """What depends on what; each jaxpr is looked at once."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Any, Sources]] = {}  # by identity of a jaxpr, which is kept alive

    def into(self, equation: Any) -> Sources:
        """The inputs of an equation that each of its outputs depends on."""
        name = equation.primitive.name
        inner = private.inner_jaxprs(equation)
        if name == private.SCAN:
            return self._through_steps(equation, inner[0])
        if name == "cond":
            return self._through_branches(inner)
        if name in CALLS:
            return self.through(inner[0])
        return [frozenset(range(len(equation.invars)))] * len(equation.outvars)

    def through(self, jaxpr: Any) -> Sources:
        """The inputs of a jaxpr that each of its outputs depends on."""
        jaxpr, _ = private.opened(jaxpr)
        if id(jaxpr) not in self._known:
            self._known[id(jaxpr)] = jaxpr, self._walk(jaxpr)
        return self._known[id(jaxpr)][1]

    def _walk(self, jaxpr: Any) -> Sources:
        reached: dict[Any, frozenset[int]] = {var: frozenset([at]) for at, var in enumerate(jaxpr.invars)}
        nothing: frozenset[int] = frozenset()

        def of(var: Any) -> frozenset[int]:
            return nothing if isinstance(var, Literal) else reached.get(var, nothing)

        for equation in jaxpr.eqns:
            given = [of(var) for var in equation.invars]
            for var, sources in zip(equation.outvars, self.into(equation), strict=True):
                reached[var] = nothing.union(*(given[at] for at in sources))
        return [of(var) for var in jaxpr.outvars]

    def _through_branches(self, branches: Sequence[Any]) -> Sources:
        """The first input says which branch is taken."""
        each = zip(*(self.through(branch) for branch in branches), strict=True)
        return [frozenset({0}.union(*({at + 1 for at in one} for one in several))) for several in each]

    def _through_steps(self, equation: Any, step: Any) -> Sources:
        """What is carried depends on all that it depended on a step before."""
        constants, carried = private.scan_parts(equation.params)
        once = self.through(step)
        found: Sources = [frozenset([constants + at]) for at in range(carried)]

        def after(sources: frozenset[int]) -> frozenset[int]:
            own = {at for at in sources if not constants <= at < constants + carried}
            return frozenset(own.union(*(found[at - constants] for at in sources - own)))

        for _ in range(carried + 1):
            found = [before | after(sources) for before, sources in zip(found, once, strict=False)]
        return [*found, *map(after, once[carried:])]
