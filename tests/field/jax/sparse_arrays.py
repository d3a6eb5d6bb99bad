# from: own
# ask: python
"""The numbers of a sparse array have names and gradients, also inside a loop, and what cuts them off has a cause."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import sparse

import backprobe as bp

MASK = jnp.asarray([[1.0, 0.0, 2.0], [0.0, 3.0, 0.0], [0.0, 0.0, 4.0]])
AT = sparse.BCOO.fromdense(MASK).indices


def plain(w, x):
    matrix = sparse.BCOO((w * 2.0, AT), shape=(3, 3))
    y = matrix @ x
    return jnp.sum(y**2)


def looped(w, x):
    def step(x, _):
        matrix = sparse.BCOO((jnp.sin(w), AT), shape=(3, 3))
        return matrix @ x, None

    return jnp.sum(lax.scan(step, x, None, length=2)[0])


def cut(w, x):
    matrix = sparse.BCOO((lax.stop_gradient(w), AT), shape=(3, 3))
    return jnp.sum(matrix @ x)


w, x = jnp.asarray([1.0, -2.0, 0.5, 3.0]), jnp.asarray([1.0, 2.0, -1.0])
recording = bp.probe(plain)(w, x)
np.testing.assert_allclose(recording["matrix.data"].grad, jax.grad(plain)(w, x) / 2, rtol=1e-6)
assert recording["matrix.indices"].status == "not_float"
recording = bp.probe(looped)(w, x)
each = recording["/step:matrix.data"].grad
np.testing.assert_allclose((each * jnp.cos(w)).sum(0), jax.grad(looped)(w, x), rtol=1e-5)
recording = bp.probe(cut)(w, x)
assert recording["matrix.data"].status == "detached", recording["matrix.data"].status
assert "stop_gradient" in str(bp.explain(recording)), bp.explain(recording)
