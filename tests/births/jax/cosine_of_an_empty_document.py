# from: https://github.com/google-deepmind/optax/pull/946
# ask: explain --nonfinite PROGRAM:loss_of a='[[0.0, 0.0], [1.0, 2.0]]' b='[[1.0, 1.0], [2.0, 1.0]]'
# birth: forward
# name: alike
# operands: norm 0.0
import jax.numpy as jnp
import optax


def loss_of(a, b):
    alike = optax.cosine_similarity(a, b)  # <- here
    return jnp.mean(1 - alike)
