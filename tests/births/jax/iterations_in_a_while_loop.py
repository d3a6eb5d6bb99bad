# from: https://github.com/jax-ml/jax/issues/5696
# ask: explain --nonfinite PROGRAM:loss_of v='[1.0, 0.0]' m='[[0.0, 1.0], [0.0, 0.0]]'
# birth: forward
# name: v
# operands: 0.0 / 0.0
import jax
import jax.numpy as jnp


def loss_of(v, m):
    def body(state):
        i, v = state
        moved = m @ v
        size = jnp.sum(jnp.abs(moved))
        v = moved / size  # <- here
        return i + 1, v

    fixed = jax.lax.stop_gradient((v, m))
    v, m = fixed[0], m
    _, top = jax.lax.while_loop(lambda state: state[0] < 2, body, (0, v))  # <- here
    return jax.lax.stop_gradient(top) @ m @ jnp.ones(2)
