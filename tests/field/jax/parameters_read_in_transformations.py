# from: own
# ask: python
"""Parameters that a module of Flax NNX reads under remat, scan and vmap have the gradients that JAX gives them."""

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

import backprobe as bp


class Remat(nnx.Module):
    def __init__(self, rngs):
        self.layer = nnx.Linear(3, 3, rngs=rngs)

    def __call__(self, x):
        return nnx.remat(lambda layer, x: jnp.sin(layer(x)))(self.layer, x).sum()


class Stacked(nnx.Module):
    def __init__(self, rngs):
        self.layer = nnx.vmap(lambda rngs: nnx.Linear(3, 3, rngs=rngs))(rngs.split(2))


class Scan(Stacked):
    def __call__(self, x):
        @nnx.scan(in_axes=(0, nnx.Carry), out_axes=nnx.Carry)
        def step(layer, x):
            return jnp.sin(layer(x))

        return step(self.layer, x).sum()


class Vmap(Stacked):
    def __call__(self, x):
        @nnx.vmap(in_axes=(0, None), out_axes=0)
        def each(layer, x):
            return jnp.sin(layer(x))

        return each(self.layer, x).sum()


class Made(nnx.Module):
    """What is merged inside a checkpoint, and given as a state."""

    def __init__(self, rngs):
        self.layer = nnx.Linear(3, 3, rngs=rngs)

    def __call__(self, x):
        graph, state = nnx.split(self.layer)

        @jax.checkpoint
        def compute(state, x):
            return jnp.sin(nnx.merge(graph, state)(x))

        return compute(state, x).sum()


x = jnp.linspace(-1.0, 1.0, 6).reshape(2, 3)
for kind in (Remat, Scan, Vmap, Made):
    model = kind(nnx.Rngs(0))
    expected = nnx.grad(lambda model: model(x))(model)
    before = jax.tree.leaves(nnx.state(model))
    recording = bp.probe(model, ["**", "**:*"])(x)
    for name in ("kernel", "bias"):
        want = np.asarray(expected["layer"][name][...])
        np.testing.assert_allclose(recording[f"layer.{name}"].grad, want, rtol=1e-5)
        np.testing.assert_allclose(recording[f"layer:self.{name}"].grad, want, rtol=1e-5)
    after = jax.tree.leaves(nnx.state(model))
    for one, other in zip(before, after, strict=True):
        np.testing.assert_array_equal(one, other)
