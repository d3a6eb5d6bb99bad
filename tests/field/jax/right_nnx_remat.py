# from: https://github.com/google/flax/pull/3267
# ask: python
import jax.numpy as jnp
from flax import nnx

import backprobe as bp


class Net(nnx.Module):
    def __init__(self, rngs):
        self.first, self.last = nnx.Linear(3, 5, rngs=rngs), nnx.Linear(5, 1, rngs=rngs)

    def __call__(self, x):
        h = nnx.remat(lambda layer, v: nnx.gelu(layer(v)))(self.first, x)
        return self.last(h).sum()


rec = bp.probe(Net(nnx.Rngs(0)), ["**", "**:*"])(jnp.ones((2, 3)))
kernels = {name: str(entry.status) for name, entry in rec.items() if "kernel" in name}
assert "first.kernel" in kernels and "frozen" not in kernels.values(), kernels
assert float(jnp.abs(rec["first.kernel"].grad).sum()) > 0
