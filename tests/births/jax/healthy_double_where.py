# from: https://docs.jax.dev/en/latest/faq.html
# ask: explain --nonfinite PROGRAM:loss_of x='[0.0, 1.0, 2.0]'
# birth: healthy
import jax.numpy as jnp


def loss_of(x):
    safe = jnp.where(x > 0, x, 1.0)
    return jnp.sum(jnp.where(x > 0, jnp.log(safe), 0.0))
