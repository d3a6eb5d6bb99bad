# from: own
# ask: check PROGRAM:loss_of x='[1.0, 2.0, -0.5]'
# never: wrong
# never: off by
import jax
import jax.numpy as jnp
from jax.custom_derivatives import linear_call


def shifted(scale, v):
    return scale * jnp.roll(v, 1)


def shifted_back(scale, c):
    return scale * jnp.roll(c, -1)


def loss_of(x):
    y = linear_call(shifted, shifted_back, 2.0, x * x)
    return jnp.sum(y * jnp.arange(3.0))


if __name__ == "__main__":
    x, h = jnp.array([1.0, 2.0, -0.5]), jnp.array([1e-2, 0.0, 0.0])
    print(jax.grad(loss_of)(x)[0], (loss_of(x + h) - loss_of(x - h)) / 2e-2)
