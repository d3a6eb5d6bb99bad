# from: own
# ask: explain --nonfinite PROGRAM:loss_of x='[0.5, 2.0, 1.0]'
# birth: healthy
import jax
import jax.numpy as jnp


def loss_of(x):
    def step(state, value):
        top, total = state
        higher = jnp.maximum(top, value)
        return (higher, total * jnp.exp(top - higher) + jnp.exp(value - higher)), None

    (top, total), _ = jax.lax.scan(step, (-jnp.inf, 0.0), x)
    return top + jnp.log(total)
