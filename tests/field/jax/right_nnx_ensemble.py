# from: https://github.com/google/flax/issues/4355
# ask: python
import jax.numpy as jnp
from flax import nnx

import backprobe as bp


class Ensemble(nnx.Module):
    def __init__(self, size, rngs):
        @nnx.split_rngs(splits=size)
        @nnx.vmap(in_axes=(0,), out_axes=0)
        def created(rngs):
            return nnx.Linear(3, 2, rngs=rngs)

        self.members = created(rngs)

    def __call__(self, x):
        each = nnx.vmap(lambda member, v: member(v), in_axes=(0, None), out_axes=0)(self.members, x)
        return (each.mean(0) ** 2).sum()


rec = bp.probe(Ensemble(4, nnx.Rngs(0)), ["**", "**:*"])(jnp.ones((2, 3)))
kernels = {name: str(entry.status) for name, entry in rec.items() if "kernel" in name}
assert kernels and "frozen" not in kernels.values(), kernels
assert rec["members.kernel"].grad.shape == (4, 3, 2)
