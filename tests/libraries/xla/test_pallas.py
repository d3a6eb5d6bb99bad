"""Pallas kernels, interpreted, with derivative rules of their own."""

import jax
import jax.numpy as jnp
from in_jax import by, descending
from jax.experimental import pallas as pl

import backprobe as bp

FRAMEWORK, LIBRARIES = "JAX", ("jax",)

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
        matmul_kernel,
        grid=(rows // 2, columns // 2),
        interpret=True,
        in_specs=[
            pl.BlockSpec((2, x.shape[1]), lambda i, j: (i, 0)),
            pl.BlockSpec((w.shape[0], 2), lambda i, j: (0, j)),
        ],
        out_specs=pl.BlockSpec((2, 2), lambda i, j: (i, j)),
        out_shape=jax.ShapeDtypeStruct((rows, columns), x.dtype),
    )(x, w)


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


# asked


def given():
    return X, Y


def test_product(ask):
    rec = ask.function(product_loss, given)
    slope = jnp.cos(X * Y)
    ask.gradients(rec, {"p": slope, "s": jnp.ones(4), "x": slope * Y, "y": slope * X} | by(product_loss, X, Y))
    ask.notes(rec, "multiply")
    ask.clean(rec)
    ask.works("a kernel with a rule of its own: what goes in and comes out")
    ask.refuses("what a kernel and a rule bind: a note")


def test_attention(ask):
    rec = ask.function(attention_loss, given)
    weights = jax.nn.softmax(2 * X)
    ask.values(rec, {"weights": weights})
    out = jnp.vdot(weights, Y)
    ask.gradients(
        rec, {"picked": jnp.full(4, 2 * out), "weights": 2 * out * Y, "scores": 2 * out * weights * (Y - out)}
    )
    ask.gradients(rec, by(attention_loss, X, Y))
    ask.names(rec, "q", "v", "scores", "weights", "picked")
    ask.clean(rec)


def test_layers(ask):
    inputs = (
        jnp.array([[0.1, 0.2], [0.3, -0.4]]),
        jnp.array([[0.5, 0.6], [0.7, 0.8]]),
        jnp.array([[1.0, 2.0], [3.0, -1.0]]),
    )
    rec = ask.function(layers_loss, lambda: inputs)
    ask.gradients(rec, by(layers_loss, *inputs) | {"out": rec["out"].value / 2})
    ask.clean(rec)
    last = ask.watched_function(descending(lambda params, x: layers_loss(*params, x), inputs[:2], [(inputs[2],)] * 20))
    ask.rows(last, "params.0", "params.1")
    ask.works("products by tiles of a grid, in a training under `bp.watch_function`")


def test_kernel_without_a_rule(ask):
    ask.refused(lambda: bp.probe(ungridded)(X), ValueError, "reverse-mode")
    ask.refuses("a kernel without a rule, which JAX itself cannot differentiate in reverse: JAX's own error")


def test_planted(ask):
    ask.cut(ask.function(cut, given), cut)
    ask.nan(ask.function(nan, given, nonfinite=True), nan)


def test_wrong_rule(ask):
    report = bp.check(wrong_rule)(X)
    ask.that(not report.ok and "wrong" in str(report), f"the wrong rule is not found:\n{report}")
    ask.that(bp.check(attention_loss)(X, Y).ok, f"a right rule is blamed:\n{bp.check(attention_loss)(X, Y)}")
    ask.works("`bp.check` finds a rule that is wrong")
