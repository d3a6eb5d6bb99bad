"""Finds useless gradients of a single call, by differentiating its function again at the same arguments."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy
from jax.extend.core import jaxpr_as_fun

from backprobe.backends.facts import Options
from backprobe.backends.jax import models
from backprobe.backends.jax.arguments import as_given
from backprobe.backends.jax.guarded_gradients import AskedGradient, JaxGuardedGradient
from backprobe.backends.jax.tape import JaxTape
from backprobe.backends.jax.tensors import is_floating
from backprobe.backends.useless import RepeatedCall, far_below, in_one_call, of_ends
from backprobe.record.reasons import Note

MODEL = "model"


class Traced(JaxTape):
    """A tape that treats all floating-point tensors as differentiated, for a function that is traced as a whole."""

    def is_differentiated(self, value: Any) -> bool:
        return self.is_floating(value)


def of_call(call: RepeatedCall) -> Sequence[Note]:
    """Return the useless gradients of one call. If the target is a model that holds its parameters, the gradients of
    its parameters are examined instead of those of the arguments.
    """
    is_model = models.kind(call.target) in ("equinox", "nnx")
    lifted = () if is_model else call.arguments() if call.wrt is None else call.wrt
    arguments = {name: _as_recorded(value, is_lifted=name in lifted) for name, value in call.arguments().items()}
    given = {MODEL: call.target, **arguments} if is_model else arguments
    asked = {name: one for name, one in given.items() if name == MODEL or (not is_model and _is_asked(call, name, one))}
    positions = [at for at, name in enumerate(given) if name in asked]

    def function(*values: Any) -> Any:
        named = dict(zip(given, values, strict=True))
        held = functools.partial(named.pop(MODEL)) if is_model else call.target
        result = held(*list(named.values())[: len(call.args)], **{name: named[name] for name in call.kwargs})
        output, cotangent = call.output(result, Traced(Options()))
        return output if cotangent is None else jnp.sum(output * cotangent)

    gradient = CallGradient(AskedGradient(function, tuple(given.values()), {}, tuple(positions), False), list(given))
    small = gradient.small()
    found = gradient.useless(small).of_zero([name for name, size in small.items() if not size])
    endings = {name.removeprefix(f"{MODEL}."): end for name, end in found.endings.items()}
    return [*map(in_one_call, found.notes), *of_ends(endings)]


class CallGradient(JaxGuardedGradient):
    """The gradient of one call, by the names of its arguments."""

    def __init__(self, asked: AskedGradient, names: Sequence[str]) -> None:
        super().__init__(asked)
        self.names = tuple(names[at] for at in asked.positions)

    def small(self) -> dict[str, float]:
        """Return the arguments whose gradient is 0 or far below the others, each with the largest number in its
        gradient.
        """
        names, closed, inputs = self._traced
        function = jaxpr_as_fun(closed)
        outputs, back = jax.vjp(lambda *arrays: function(*arrays), *inputs)
        gradients = back([jnp.ones_like(one) for one in outputs])
        sizes = {name: float(jnp.max(jnp.abs(one), initial=0.0)) for name, one in zip(names, gradients, strict=True)}
        unit = max((float(jnp.finfo(one.dtype).eps) for one in gradients), default=0.0)
        limit = far_below(unit) * max(sizes.values(), default=0.0)
        return {name: size for name, size in sizes.items() if size <= limit}


def _as_recorded(value: Any, *, is_lifted: bool) -> Any:
    # Return an argument as in the recorded run, with JAX arrays instead of NumPy arrays, and of Python's numbers if it
    # is differentiated. The caller's containers are not changed.
    exchanged = (numpy.ndarray, float) if is_lifted else numpy.ndarray
    if not any(isinstance(leaf, exchanged) for leaf in jax.tree.leaves(value)):
        return value
    return jax.tree.map(
        lambda leaf: jnp.asarray(leaf) if is_lifted and isinstance(leaf, float) else as_given(leaf), value
    )


def _is_asked(call: RepeatedCall, name: str, value: Any) -> bool:
    has_numbers = any(map(is_floating, jax.tree.leaves(value))) or isinstance(value, float)
    return has_numbers and (call.wrt is None or name in call.wrt)
