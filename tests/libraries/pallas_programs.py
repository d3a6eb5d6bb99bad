"""Pallas kernels, interpreted, with derivative rules of their own."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl

X, Y = jnp.array([1.0, -2.0, 0.5, 3.0]), jnp.array([0.25, 1.5, -1.0, 2.0])

# https://docs.jax.dev/en/latest/pallas/quickstart.html


def multiply_kernel(x_ref, y_ref, o_ref):
    x, y = x_ref[...], y_ref[...]
    o_ref[...] = x * y


def multiply_forward(x, y):
    return pl.pallas_call(multiply_kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), interpret=True)(x, y)


@jax.custom_vjp
def multiply(x, y):
    return multiply_forward(x, y)


multiply.defvjp(lambda x, y: (multiply_forward(x, y), (x, y)), lambda kept, g: (g * kept[1], g * kept[0]))


def product_loss(x, y):
    p = multiply(x, y)
    s = jnp.sin(p)
    return jnp.sum(s)


# https://docs.jax.dev/en/latest/pallas/design/design.html (the softmax kernel, and its rule)


def softmax_kernel(x_ref, o_ref):
    x = x_ref[...]
    shifted = jnp.exp(x - jnp.max(x))
    o_ref[...] = shifted / jnp.sum(shifted)


@jax.custom_vjp
def softmax(x):
    return pl.pallas_call(softmax_kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), interpret=True)(x)


def softmax_fwd(x):
    s = softmax(x)
    return s, s


def softmax_bwd(s, g):
    return (s * (g - jnp.vdot(s, g)),)


softmax.defvjp(softmax_fwd, softmax_bwd)


def attention_loss(q, v):
    scores = q * 2.0
    weights = softmax(scores)
    picked = weights * v
    return jnp.sum(picked) ** 2


# https://docs.jax.dev/en/latest/pallas/tpu/matmul.html (a grid of tiles; its backward is two more products)


def matmul_kernel(x_ref, w_ref, o_ref):
    o_ref[...] = x_ref[...] @ w_ref[...]


def tiled(x, w):
    rows, columns = x.shape[0], w.shape[1]
    return pl.pallas_call(
        matmul_kernel, grid=(rows // 2, columns // 2), interpret=True,
        in_specs=[pl.BlockSpec((2, x.shape[1]), lambda i, j: (i, 0)), pl.BlockSpec((w.shape[0], 2), lambda i, j: (0, j))],
        out_specs=pl.BlockSpec((2, 2), lambda i, j: (i, j)), out_shape=jax.ShapeDtypeStruct((rows, columns), x.dtype),
    )(x, w)  # fmt: skip


@jax.custom_vjp
def matmul(x, w):
    return tiled(x, w)


matmul.defvjp(lambda x, w: (tiled(x, w), (x, w)), lambda kept, g: (tiled(g, kept[1].T), tiled(kept[0].T, g)))


def layers_loss(w1, w2, x):
    h = jnp.tanh(matmul(x, w1))
    out = matmul(h, w2)
    return jnp.mean(out**2)


# a kernel without a rule of its own: JAX differentiates it


def scale_kernel(x_ref, o_ref):
    scaled = jnp.sin(x_ref[...]) * 2.0
    o_ref[...] = scaled


def ungridded(x):
    y = pl.pallas_call(scale_kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), interpret=True)(x)
    return jnp.sum(y**2)


# planted


def cut(x, y):
    fixed = jax.lax.stop_gradient(multiply(x, y))  # <- cut
    return jnp.sum(fixed * y)


def nan(x, y):
    p = multiply(x, y)
    logs = jnp.log(p)  # <- nan
    return jnp.sum(logs)


@jax.custom_vjp
def wrong(x):
    return softmax(x)


wrong.defvjp(lambda x: (softmax(x), softmax(x)), lambda s, g: (s * g,))


def wrong_rule(x):
    weights = wrong(x)
    return jnp.sum(weights * Y)
