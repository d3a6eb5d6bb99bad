# from: own
# ask: python
import jax.numpy as jnp
from jax import lax, random

import backprobe as bp

key = random.key(0)


def loss_of(w):
    def turn(h, k):
        noise = random.normal(k, (2,))
        h = jnp.tanh(h * w + noise)
        return h, noise

    h, noises = lax.scan(turn, jnp.ones(2), random.split(key, 3))
    return jnp.sum(h)


rec = bp.probe(loss_of)(0.5)
wrong = {name: entry.reason for name, entry in rec.items() if str(entry.status) == "detached"}
assert not wrong, wrong
assert float(rec["w"].grad) != 0
assert bp.explain(rec).ok, str(bp.explain(rec))
