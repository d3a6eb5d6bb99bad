# from: https://github.com/jax-ml/jax/issues/2956
# exit: 3
# says: fori_loop
# says: trip count|static|bounds
# says: return lax\.fori_loop\(0, sweeps, sweep, signal\)
# never: got a gradient
"""Under `jit` the number of sweeps is traced: a `fori_loop` of it has no reverse mode, which it has without `jit`."""

import jax
import jax.numpy as jnp
from jax import lax


def smoothed(signal, rate, sweeps):
    def sweep(_, s):
        return s + rate * (jnp.roll(s, 1) - 2.0 * s + jnp.roll(s, -1))

    return lax.fori_loop(0, sweeps, sweep, signal)


@jax.jit
def step(rate, signal, sweeps):
    return jax.value_and_grad(lambda r: jnp.mean((smoothed(signal, r, sweeps) - 0.5) ** 2))(rate)


rate = jnp.array(0.1)
signal = jnp.sin(jnp.arange(8.0))
for turn in range(2):
    loss, slope = step(rate, signal, 5)
    rate = rate - 0.1 * slope
print(rate)
