"""Finds calls in a JAX program whose result does not depend on their input, such as softmax along a dimension of size
1.

JAX splits a call into several equations. The equations of one call are run together again, on other numbers.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

import jax.numpy as jnp
import numpy

from backprobe.backends.jax import private
from backprobe.backends.jax.useless.program import CodePlace, EquationStep, RecordedProgram
from backprobe.backends.useless.constants import is_constant
from backprobe.backends.useless.distributions import MOST
from backprobe.backends.useless.ways import FAINT


def constants(
    program: RecordedProgram, steps: Sequence[EquationStep], norms: Mapping[int, float]
) -> Iterator[tuple[int, EquationStep]]:
    """Yield the values that are used only by calls with a constant result, each with the call's last step.

    ``norms`` are the norms of the gradients that arrived at each value. Only calls that pass on almost nothing are
    tested.
    """
    uses: dict[int, set[EquationStep]] = {}
    for step in steps:
        for at in step.given:
            uses.setdefault(at, set()).add(step)
    for _, several in groupby(steps, _call):
        call = [*several]
        made = {at for step in call for at in step.made}
        given = [*dict.fromkeys(at for step in call for at in step.given if at not in made)]
        moving = [at for at in given if program.moving[at] and program.is_floating(at)]
        results = [at for at in made if at == program.output or not uses.get(at, set()) <= {*call}]
        came, passed = (math.hypot(*(norms.get(at, 0.0) for at in each)) for each in (results, moving))
        is_faint = moving and came > 0 and passed <= FAINT * came
        if is_faint and _gives_the_same(program, call, given, results):
            yield from ((at, call[-1]) for at in moving if uses[at] <= {*call})


def _call(step: EquationStep) -> object:
    # Return a key of the call: the place where the program calls the function that made this step, and that function.
    places: list[CodePlace] = step.places
    users = max((at for at, one in enumerate(places) if one.package is None), default=-1)
    return tuple(places[: users + 2])


def _gives_the_same(
    program: RecordedProgram, call: Sequence[EquationStep], given: Sequence[int], results: Sequence[int]
) -> bool:
    # operands that keep their numbers, such as -inf in a maximum
    kept = {at for at in given if _is_infinite(program.values[at])}
    changed = [at for at in given if at not in kept]
    if any(step.equation.effects for step in call) or not results:
        return False
    if not all(map(program.is_floating, (*changed, *results))):
        return False
    if sum(map(program.size, (*changed, *results))) > MOST:
        return False

    def make(arrays: Sequence[Any]) -> Any:
        known = {at: program.values[at] for at in kept}
        for at, numbers in zip(changed, arrays, strict=True):
            known[at] = jnp.asarray(numbers, jnp.result_type(program.values[at]))
        for step in call:
            known.update(zip(step.made, private.bind(step.equation, [known[at] for at in step.given]), strict=True))
        return numpy.concatenate([numpy.asarray(known[at]).astype(numpy.float64).reshape(-1) for at in results])

    try:
        unit = max(float(jnp.finfo(jnp.result_type(program.values[at])).eps) for at in results)
        return is_constant(make, [*map(program.shape, changed)], unit)
    except Exception:  # noqa: BLE001  # whatever an operation raises on such numbers: nothing is said of it
        return False


def _is_infinite(value: Any) -> bool:
    return jnp.ndim(value) == 0 and jnp.issubdtype(jnp.result_type(value), jnp.floating) and bool(jnp.isinf(value))
