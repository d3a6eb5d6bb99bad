"""Finds useless gradients of a function that a JAX program differentiates, from shapes and numbers."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from jax.extend.core import ClosedJaxpr

from backprobe.backends.jax import private
from backprobe.backends.jax.useless.distributions import twice
from backprobe.backends.jax.useless.dropped import dropped
from backprobe.backends.jax.useless.passes import BackwardThroughSteps
from backprobe.backends.jax.useless.picks import unnormalised
from backprobe.backends.jax.useless.program import RecordedProgram
from backprobe.backends.jax.useless.shapes import stretched
from backprobe.backends.useless import TWICE, UNNORMALISED, Observed, of_operation, outer_product
from backprobe.backends.useless.dropped import notes_on_dropped

MOST = 20_000
"""A function with more equations than this is not examined."""


def observed(closed: ClosedJaxpr, inputs: Sequence[Any], names: Sequence[str], suspicious: Collection[str]) -> Observed:
    """Return the useless gradients found in a function of these named inputs, and the places where suspicious gradients
    vanish.
    """
    if sum(1 for _ in private.equations(closed.jaxpr)) > MOST:
        return Observed()
    program = RecordedProgram.run(closed, inputs)
    notes = [outer_product(one.shapes, one.result, one.place.line) for one in stretched(program)]
    applied = twice(program)
    notes += [of_operation(TWICE, one.step.line, applied=one.applied) for one in applied if one.is_told_apart]
    notes += [of_operation(UNNORMALISED, line) for line in unnormalised(program)]
    notes += notes_on_dropped(dropped(program))
    positions = [at for at, name in enumerate(names) if name in suspicious]
    endings = BackwardThroughSteps(program).endings(positions) if positions else {}
    named = {names[at]: end for at, end in endings.items()}
    return Observed(notes, named, any(not one.is_told_apart for one in applied))
