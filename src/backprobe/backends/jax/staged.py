"""Calls into JAX's own transformations: traced as JAX does, and run with the values inside brought out.

A value inside a loop, a branch or a checkpoint exists only while JAX traces that. So such a call is traced to a jaxpr,
in which the taps stand, and the jaxpr is run equation by equation: values come out as further outputs, and gradients
by perturbing each value with a zero that comes from outside, stacked by the steps of the loops around it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy
from jax.extend.core import Literal

from backprobe.backends.jax import private
from backprobe.backends.jax.primitives import TAPS, concrete, peek_p, perturb_p, tap_p

INLINED = ("jit", "pjit", "closed_call", "core_call")
OPAQUE = {
    "while": "it is computed in a loop whose number of turns is not known beforehand, which has no reverse mode",
    "custom_jvp_call": "it is computed inside a function with a derivative rule of its own",
    "custom_vjp_call": "it is computed inside a function with a derivative rule of its own",
}

Values = dict[int, Any]
"""What was found of each tap, by its key."""


def trace(
    function: Callable[..., Any], args: Any, kwargs: Any
) -> tuple[Any, Callable[[Sequence[Any]], Any], list[Any]]:
    """The jaxpr of a call, what makes the call's result of the jaxpr's outputs, and the arrays to run it on."""
    leaves, tree = jax.tree.flatten((args, kwargs))
    places = [at for at, leaf in enumerate(leaves) if isinstance(leaf, jax.Array | numpy.ndarray)]

    def call(*arrays: Any) -> Any:
        given = list(leaves)
        for at, array in zip(places, arrays, strict=True):
            given[at] = array
        own_args, own_kwargs = jax.tree.unflatten(tree, given)
        return function(*own_args, **own_kwargs)

    arrays = [leaves[at] for at in places]
    closed, shape = jax.make_jaxpr(call, return_shape=True)(*arrays)
    structure = jax.tree.structure(shape)
    return closed, lambda outputs: jax.tree.unflatten(structure, outputs), arrays


class Staged:
    """Runs a traced call at the level where the program itself runs."""

    def __init__(self, zero: Callable[[int, Any], Any], settle: Callable[[Any, Any], None]) -> None:
        self.zero = zero  # (key, what it is like) -> a tapped zero that a value inside is perturbed with
        self.settle = settle  # (tap, what stands for its value from now on)

    def run(self, jaxpr: Any, constants: Sequence[Any], inputs: Sequence[Any]) -> list[Any]:
        """The outputs of a jaxpr, its taps standing for values of the program."""
        return self._evaluate(jaxpr, constants, inputs, self._equation)

    def _evaluate(
        self, jaxpr: Any, constants: Sequence[Any], inputs: Sequence[Any], step: Callable[[Any, list[Any]], list[Any]]
    ) -> list[Any]:
        values: dict[Any, Any] = {}
        values.update(zip(jaxpr.constvars, constants, strict=True))
        values.update(zip(jaxpr.invars, inputs, strict=True))

        def read(var: Any) -> Any:
            return var.val if isinstance(var, Literal) else values[var]

        for equation in jaxpr.eqns:
            made = step(equation, [read(var) for var in equation.invars])
            values.update(zip(equation.outvars, made, strict=True))
        return [read(var) for var in jaxpr.outvars]

    def _equation(self, equation: Any, inputs: list[Any]) -> list[Any]:
        """One equation outside of any loop: its taps are those of the program itself."""
        name = equation.primitive.name
        if equation.primitive in (tap_p, peek_p) or not holds_taps(equation):
            made = private.bind(equation, inputs)
            tap = TAPS.get(equation.params.get("key"))
            if tap is not None:
                self.settle(tap, made[0])
            return made
        if name in INLINED:
            jaxpr, constants = private.opened(_inner(equation))
            return self._evaluate(jaxpr, constants, inputs, self._equation)
        found = sites(equation)
        if not found:
            return private.bind(equation, inputs)
        perturbations = {key: self.zero(key, like) for key, like in found.items()}
        outputs, values = _inside(equation, inputs, perturbations)
        for key, (value, ran) in values.items():
            tap = TAPS.get(key)
            if tap is not None:
                tap.value, tap.ran = concrete(value), ran
        return outputs


def holds_taps(equation: Any) -> bool:
    """Is there a tap anywhere inside an equation?"""
    return any(
        inner.primitive in (tap_p, peek_p) or holds_taps(inner)
        for jaxpr in private.inner_jaxprs(equation)
        for inner in private.opened(jaxpr)[0].eqns
    )


def sites(equation: Any, lengths: tuple[int, ...] = (), axes: tuple[str, ...] = ()) -> dict[int, Any]:
    """The captured taps inside an equation, by key, with shape and dtype over all steps of the loops around them."""
    found: dict[int, Any] = {}
    name = equation.primitive.name
    if name == private.SCAN:
        lengths, axes = (*lengths, equation.params["length"]), (*axes, "step")
    for jaxpr in private.inner_jaxprs(equation):
        for inner in private.opened(jaxpr)[0].eqns:
            if inner.primitive is peek_p:
                tap = TAPS.get(inner.params["key"])
                if tap is None:
                    continue
                tap.lost = False
                tap.axes = axes + ("batch",) * inner.params["batch"]
                if name in OPAQUE or name not in ENTERED:
                    tap.opaque = OPAQUE.get(name, f"it is computed inside JAX's {name}, which backprobe does not enter")
                    continue
                aval = inner.outvars[0].aval
                found[tap.key] = jax.ShapeDtypeStruct((*lengths, *aval.shape), aval.dtype)
            else:
                found.update(sites(inner, lengths, axes))
    return found


# running an equation with what is inside it perturbed and brought out


def _inside(equation: Any, inputs: list[Any], eps: Mapping[int, Any]) -> tuple[list[Any], dict[int, tuple[Any, Any]]]:
    """The outputs of an equation, and the value of each tap inside it with whether it was computed at all."""
    entered = ENTERED.get(equation.primitive.name)
    if entered is None:
        return private.bind(equation, inputs), {}
    outputs, values = entered(equation, inputs, eps)
    return outputs, values


def _run(jaxpr: Any, inputs: Sequence[Any], eps: Mapping[int, Any]) -> tuple[list[Any], dict[int, tuple[Any, Any]]]:
    """A jaxpr inside a transformation."""
    jaxpr, constants = private.opened(jaxpr)
    found: dict[int, tuple[Any, Any]] = {}
    values = dict(zip(jaxpr.constvars, constants, strict=True)) | dict(zip(jaxpr.invars, inputs, strict=True))

    def read(var: Any) -> Any:
        return var.val if isinstance(var, Literal) else values[var]

    for equation in jaxpr.eqns:
        given = [read(var) for var in equation.invars]
        key = equation.params.get("key")
        if equation.primitive is tap_p:
            made = [perturb_p.bind(*given, eps[key], key=key) if key in eps else given[0]]
        elif equation.primitive is peek_p:
            made = given
            if key in eps:
                found[key] = (given[0], jnp.asarray(True))
        elif holds_taps(equation):
            made, inside = _inside(equation, given, {k: eps[k] for k in sites(equation) if k in eps})
            found.update(inside)
        else:
            made = private.bind(equation, given)
        values.update(zip(equation.outvars, made, strict=True))
    return [read(var) for var in jaxpr.outvars], found


def _inner(equation: Any) -> Any:
    (jaxpr,) = private.inner_jaxprs(equation)
    return jaxpr


def _inlined(equation: Any, inputs: list[Any], eps: Mapping[int, Any]) -> Any:
    return _run(_inner(equation), inputs, eps)


def _checkpointed(equation: Any, inputs: list[Any], eps: Mapping[int, Any]) -> Any:
    def run(eps: Mapping[int, Any], *inputs: Any) -> Any:
        return _run(_inner(equation), inputs, eps)

    params = equation.params
    return jax.checkpoint(run, prevent_cse=params["prevent_cse"], policy=params["policy"])(eps, *inputs)


def _scanned(equation: Any, inputs: list[Any], eps: Mapping[int, Any]) -> Any:
    params = equation.params
    constants, carried = private.scan_parts(params)
    fixed, first, along = inputs[:constants], inputs[constants : constants + carried], inputs[constants + carried :]

    def step(carry: Any, at_step: Any) -> Any:
        own, own_eps = at_step
        outputs, values = _run(params["jaxpr"], [*fixed, *carry, *own], own_eps)
        return outputs[:carried], (outputs[carried:], values)

    last, (stacked, values) = jax.lax.scan(
        step, first, (along, eps), length=params["length"], reverse=params["reverse"], unroll=params["unroll"]
    )
    return [*last, *stacked], values


def _branched(equation: Any, inputs: list[Any], eps: Mapping[int, Any]) -> Any:
    branches = equation.params["branches"]

    def absent(key: int) -> tuple[Any, Any]:
        return jnp.zeros_like(eps[key]), jnp.asarray(False)

    def taking(branch: Any) -> Callable[..., Any]:
        def run(eps: Mapping[int, Any], *inputs: Any) -> Any:
            outputs, values = _run(branch, inputs, eps)
            return outputs, {key: values.get(key) or absent(key) for key in eps}

        return run

    index, *rest = inputs
    return jax.lax.switch(index, [taking(branch) for branch in branches], eps, *rest)


ENTERED: dict[str, Callable[[Any, list[Any], Mapping[int, Any]], Any]] = {
    **dict.fromkeys(INLINED, _inlined),
    **dict.fromkeys(("checkpoint", "remat", "remat2"), _checkpointed),
    private.SCAN: _scanned,
    "cond": _branched,
}
