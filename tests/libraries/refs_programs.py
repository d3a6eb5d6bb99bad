"""jax.new_ref: arrays that are written to, within functions that are differentiated."""

import jax
import jax.numpy as jnp

# https://docs.jax.dev/en/latest/array_refs.html


def accumulated(x, w):
    ref = jax.new_ref(jnp.zeros(3))
    for i in range(3):
        term = jnp.sin(x[i] * w)
        ref[i] = term
    total = ref[...]
    return jnp.sum(total**2)


def scanned(x, w):
    sums = jax.new_ref(jnp.zeros(()))

    def body(carry, x_i):
        step = carry * w + x_i
        sums[...] += step**2
        return step, step

    last, path = jax.lax.scan(body, jnp.zeros(()), x)
    return sums[...] + last


def foreach(x, w):
    out = jax.new_ref(jnp.zeros_like(x))

    def body(i, _):
        value = jnp.tanh(x[i] * w)
        out[i] = value
        return _

    jax.lax.fori_loop(0, 3, body, 0)
    frozen = jax.ref.freeze(out)
    return jnp.sum(frozen * jnp.array([1.0, 2.0, 3.0]))


# planted


def cut(x, w):
    ref = jax.new_ref(jnp.zeros(3))
    product = x * w
    ref[...] = jax.lax.stop_gradient(product)  # <- cut
    total = ref[...]
    return jnp.sum(total * x)


def nan(x, w):
    ref = jax.new_ref(x * w)
    held = ref[...]
    logs = jnp.log(held - 100.0)  # <- nan
    ref[...] = logs
    return jnp.sum(ref[...])
