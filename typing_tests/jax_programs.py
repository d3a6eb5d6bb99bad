"""Functions and models of JAX."""

from typing import Any, assert_type

import jax
import jax.numpy as jnp
from jax import Array

import backprobe as bp


def loss(params: dict[str, Array], x: Array) -> Array:
    u = x @ params["w"]
    return jnp.sum(u)


params, x = {"w": jnp.ones(3)}, jnp.ones(3)

rec = bp.probe(loss, wrt="params", backend="jax")(params, x)
assert_type(rec.result, Array)
assert_type(rec["params.w"].grad, Array)
assert_type(rec["u"].value.at[0].set(1.0), Array)
assert_type(bp.probe(jax.jit(loss))(params, x=x).result, Any)
assert_type(bp.check(loss)(params, x), bp.CheckReport)

bp.probe(loss)(params)  # type: ignore[call-arg]
bp.probe(loss)(x, x)  # type: ignore[arg-type]
rec["u"].grad.backward()  # type: ignore[attr-defined]
rec.result["loss"].item().nothing()
rec.result.loss  # type: ignore[attr-defined]
