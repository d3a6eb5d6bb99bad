# from: https://github.com/jax-ml/jax/issues/14623
# ask: python
import jax
import jax.numpy as jnp
from jax.experimental.sparse import BCOO

import backprobe as bp

places = jnp.stack([jnp.arange(4), (jnp.arange(4) + 1) % 5], axis=-1)


def quadratic(p):
    values = (places[:, 0] - places[:, 1]) ** 2 / p * jnp.arange(1.0, 5.0)
    matrix = BCOO((values, places), shape=(5, 5))
    return jnp.ones(5) @ (matrix @ jnp.arange(5.0))


truth = jax.grad(quadratic)(2.0)
rec = bp.probe(quadratic)(2.0)
assert abs(float(rec["p"].grad - truth)) < 1e-5
said = " ".join(map(str, rec.notes))
assert any(name.startswith("matrix") for name in rec) or "BCOO" in said or "matrix" in said, (list(rec), said)
