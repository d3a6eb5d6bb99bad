# from: https://github.com/jax-ml/jax/issues/23403
# ask: python
import jax
import jax.numpy as jnp
from jax.scipy.sparse.linalg import cg

import backprobe as bp


def loss_of(a, b):
    def stiffness(v):
        pushed = a * v + jnp.roll(v, 1) * 0.1 + jnp.roll(v, -1) * 0.1
        return pushed

    x, _ = cg(stiffness, b)
    return jnp.sum(x**2)


a, b = jnp.array([2.0, 3.0, 4.0]), jnp.array([1.0, 0.0, -1.0])
truth = jax.grad(loss_of)(a, b)
rec = bp.probe(loss_of)(a, b)
assert float(jnp.abs(rec["a"].grad - truth).max()) < 1e-4
said = " ".join(map(str, rec.notes))
assert any("stiffness" in name for name in rec) or "stiffness" in said or "cg" in said, (list(rec), said)
