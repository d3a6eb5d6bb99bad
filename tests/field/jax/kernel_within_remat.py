# from: own
# ask: python
import jax.numpy as jnp
from flax import nnx

import backprobe as bp


class Layer(nnx.Module):
    def __init__(self, rngs):
        self.lin = nnx.Linear(3, 3, rngs=rngs)

    def __call__(self, x):
        return nnx.remat(lambda lin, x: jnp.sin(lin(x)))(self.lin, x).sum()


rec = bp.probe(Layer(nnx.Rngs(0)), ["**", "**:*"])(jnp.ones((2, 3)))
assert rec["lin.kernel"].status == "ok"
inner = [entry for name, entry in rec.items() if name.endswith("self.kernel")]
assert inner
assert all(entry.status != "frozen" for entry in inner), [(entry.status, str(entry.reason)) for entry in inner]
