"""Runs loops, branches and checkpoints, which JAX traces only once, so that inner values can be read and perturbed.

Each inner value becomes a further output. A zero is passed in from outside and added to the inner value, so the
gradient of the zero is the gradient of the value. In a loop, both have a leading axis for the steps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from backprobe.backends.jax import private
from backprobe.backends.jax.primitives import TAPS, peek_p, perturb_p, tap_p
from backprobe.record.reasons import Reason

CALLS = ("jit", "pjit", "closed_call", "core_call")
CHECKPOINTS = ("checkpoint", "remat", "remat2")
OPAQUE = {
    "while": Reason("while_loop"),
    "custom_jvp_call": Reason("custom_rule"),
    "custom_vjp_call": Reason("custom_rule"),
    "custom_vjp_call_jaxpr": Reason("custom_rule"),
}

Found = tuple[list[Any], dict[int, tuple[Any, Any]]]
"""The outputs of an equation, and for each tap inside it the value and whether the value was computed at all."""


@dataclass(frozen=True)
class TapSite:
    """A captured tap inside an equation."""

    like: jax.ShapeDtypeStruct  # shape and dtype of the tap's value, stacked over the steps of all loops
    axes: tuple[str, ...]
    opaque: Reason | None = None  # why the value cannot be brought out of the equation


def keys_inside(equation: Any) -> set[int]:
    """Return the keys of all taps inside an equation, at any depth."""
    return {one.params["tap_key"] for one in private.inner_equations(equation) if one.primitive in (tap_p, peek_p)}


def sites(equation: Any, around: TapSite | None = None) -> dict[int, TapSite]:
    """Return the captured taps inside an equation, by key."""
    around = around or TapSite(jax.ShapeDtypeStruct((), bool), ())
    name = equation.primitive.name
    lengths, axes, opaque = around.like.shape, around.axes, around.opaque
    if name == private.SCAN:
        lengths, axes = (*lengths, equation.params["length"]), (*axes, "step")
    if opaque is None and name not in ENTERED:
        opaque = OPAQUE.get(name, Reason("primitive_not_entered", {"primitive": name}))
    found: dict[int, TapSite] = {}
    for jaxpr in private.inner_jaxprs(equation):
        for inner in jaxpr.eqns:
            if inner.primitive is not peek_p:
                found.update(sites(inner, TapSite(jax.ShapeDtypeStruct(lengths, bool), axes, opaque)))
            elif inner.params["tap_key"] in TAPS:
                aval = inner.outvars[0].aval
                like = jax.ShapeDtypeStruct((*lengths, *aval.shape), aval.dtype)
                found[inner.params["tap_key"]] = TapSite(like, axes + ("batch",) * inner.params["batch"], opaque)
    return found


def _run(jaxpr: Any, inputs: Sequence[Any], eps: Mapping[int, Any]) -> Found:
    # Run a jaxpr from inside a transformation. Add ``eps`` to the values of its captured taps, and return these values
    # too.
    found: dict[int, tuple[Any, Any]] = {}

    def run(equation: Any, given: list[Any]) -> list[Any]:
        key = equation.params.get("tap_key")
        if equation.primitive is tap_p:
            return [perturb_p.bind(*given, eps[key], tap_key=key)] if key in eps else given
        if equation.primitive is peek_p:
            found.update({key: (given[0], jnp.asarray(True))} if key in eps else {})
            return given
        own = {key: eps[key] for key in keys_inside(equation) if key in eps}
        if not own:
            return private.bind(equation, given)
        made, inside = ENTERED[equation.primitive.name](equation, given, own)
        found.update(inside)
        return made

    return private.evaluated(jaxpr, inputs, run), found


def _called(equation: Any, inputs: list[Any], eps: Mapping[int, Any]) -> Found:
    return _run(private.inner_jaxprs(equation)[0], inputs, eps)


def _checkpointed(equation: Any, inputs: list[Any], eps: Mapping[int, Any]) -> Found:
    def run(eps: Mapping[int, Any], *inputs: Any) -> Any:
        return _called(equation, list(inputs), eps)

    params = equation.params
    outputs, values = jax.checkpoint(run, prevent_cse=params["prevent_cse"], policy=params["policy"])(eps, *inputs)
    return outputs, values


def _scanned(equation: Any, inputs: list[Any], eps: Mapping[int, Any]) -> Found:
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


def _branched(equation: Any, inputs: list[Any], eps: Mapping[int, Any]) -> Found:
    branches, known = equation.params["branches"], sites(equation)

    def absent(key: int) -> tuple[Any, Any]:
        steps = known[key].like.shape[: known[key].axes.count("step")]  # the steps of the loops inside the branch
        return jnp.zeros_like(eps[key]), jnp.zeros(steps, bool)

    def taking(branch: Any) -> Callable[..., Any]:
        def run(eps: Mapping[int, Any], *inputs: Any) -> Any:
            outputs, values = _run(branch, inputs, eps)
            return outputs, {key: values.get(key) or absent(key) for key in eps}

        return run

    index, *rest = inputs
    outputs, values = jax.lax.switch(index, [taking(branch) for branch in branches], eps, *rest)
    return outputs, values


ENTERED: dict[str, Callable[[Any, list[Any], Mapping[int, Any]], Found]] = {
    **dict.fromkeys(CALLS, _called),
    **dict.fromkeys(CHECKPOINTS, _checkpointed),
    private.SCAN: _scanned,
    "cond": _branched,
}
