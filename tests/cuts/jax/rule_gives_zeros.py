# from: own
# ask: explain PROGRAM:loss_of x='[0.5, -1.0, 2.0]' w='[1.0, 2.0, 0.5]'
# kind: none_from_backward
# name: x
# missing: x
import jax
import jax.numpy as jnp


@jax.custom_vjp
def soft_threshold(x, level):
    return jnp.sign(x) * jnp.maximum(jnp.abs(x) - level, 0.0)


def forward(x, level):
    return soft_threshold(x, level), (x, level)


def backward(kept, upstream):
    x, level = kept
    return jnp.zeros_like(x), -jnp.sum(upstream * jnp.sign(x))  # <- here


soft_threshold.defvjp(forward, backward)


def loss_of(x, w):
    u = x * 3.0
    sparse = soft_threshold(u, 0.2)  # <- here
    return jnp.sum((sparse * w) ** 2)
