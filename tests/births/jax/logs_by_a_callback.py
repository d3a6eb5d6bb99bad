# from: https://docs.jax.dev/en/latest/external-callbacks.html
# ask: explain --nonfinite PROGRAM:loss_of x='[1.0, 0.0, 2.0]'
# birth: forward
# name: logs
# operands: 0.0
import jax
import jax.numpy as jnp
import numpy as np


def by_numpy(x):
    given = np.asarray(x)
    with np.errstate(divide="ignore"):
        logs = np.log(given)  # <- here
    return logs


@jax.custom_vjp
def log(x):
    return jax.pure_callback(by_numpy, jax.ShapeDtypeStruct(x.shape, x.dtype), x)


log.defvjp(lambda x: (log(x), x), lambda x, g: (g / jnp.where(x == 0, 1.0, x),))


def loss_of(x):
    logs = log(x)  # <- here
    return jnp.sum(logs**2)
