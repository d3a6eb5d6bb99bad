# from: https://github.com/google/flax/issues/4771
# ask: python
import jax
import jax.numpy as jnp
from flax import nnx

import backprobe as bp


class Block(nnx.Module):
    def __init__(self, width, rngs):
        self.linear = nnx.Linear(width, width, rngs=rngs)

    def __call__(self, x):
        return jnp.tanh(self.linear(x))


class Mlp(nnx.Module):
    def __init__(self, width, depth, rngs):
        @nnx.split_rngs(splits=depth)
        @nnx.vmap(in_axes=(0,), out_axes=0)
        def created(rngs):
            return Block(width, rngs=rngs)

        self.blocks = created(rngs)

    def __call__(self, x):
        @nnx.scan(in_axes=(nnx.Carry, 0), out_axes=nnx.Carry)
        def forward(x, block):
            return block(x)

        return forward(x, self.blocks).sum()


model = Mlp(3, 4, nnx.Rngs(0))
x = jnp.ones((2, 3))
truth = nnx.grad(lambda m: m(x))(model)
assert float(jnp.abs(jax.tree.leaves(truth)[0]).sum()) > 0
rec = bp.probe(model, ["**", "**:*"])(x)
kernels = {name: str(entry.status) for name, entry in rec.items() if "kernel" in name}
assert kernels and "frozen" not in kernels.values(), kernels
assert "frozen" not in str(bp.explain(rec)), str(bp.explain(rec))
