"""jax.new_ref: arrays that are written to, within functions that are differentiated."""

import jax
import jax.numpy as jnp
from in_jax import by, descending

import backprobe as bp

FRAMEWORK, LIBRARIES = "JAX", ("jax",)

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
    ref = jax.new_ref(x * 2)
    product = x * w
    for at in range(3):
        ref[at] += jax.lax.stop_gradient(product[at])  # <- cut
    total = ref[...]
    return jnp.sum(total * x)


def cut_into_ref(x, w):
    ref = jax.new_ref(jnp.zeros(3))
    ref[...] = jax.lax.stop_gradient(x * w)
    total = ref[...]
    return jnp.sum(total * x)


def nan(x, w):
    ref = jax.new_ref(x * w)
    held = ref[...]
    logs = jnp.log(held - 100.0)  # <- nan
    ref[...] = logs
    return jnp.sum(ref[...])


# asked


def given():
    return jnp.array([1.0, -2.0, 0.5]), jnp.array(0.7)


def test_accumulated(ask):
    rec = ask.function(accumulated, given)
    x, w = given()
    total = jnp.sin(x * w)
    ask.gradients(
        rec, {"total": 2 * total, "x": 2 * total * jnp.cos(x * w) * w, "w": jnp.sum(2 * total * jnp.cos(x * w) * x)}
    )
    ask.gradients(rec, by(accumulated, *given()) | {f"term#{at}": 2 * total[at] for at in range(3)})
    ask.names(rec, "x", "w", "term#0", "total")
    ask.clean(rec)
    ask.works("a `jax.new_ref` that a function makes, writes to and reads")


def test_scanned(ask):
    rec = ask.function(scanned, given)
    ask.gradients(rec, by(scanned, *given()) | {"last": 1.0})
    ask.names(rec, "/body:step", "last", "path")
    ask.clean(rec)
    ask.works("one that `scan` adds to")


def test_foreach(ask):
    rec = ask.function(foreach, given)
    ask.gradients(rec, by(foreach, *given()) | {"frozen": jnp.array([1.0, 2.0, 3.0])})
    ask.gradients(rec, {"/body:value": jnp.array([1.0, 2.0, 3.0])})
    ask.clean(rec)
    ask.works("one that `fori_loop` fills, and `jax.ref.freeze`")


def test_planted(ask):
    ask.nan(ask.function(nan, given, nonfinite=True), nan)


def test_cut(ask):
    ask.cut(ask.function(cut, given), cut)
    ask.refused(lambda: bp.probe(cut_into_ref)(*given()), AttributeError, "accum")
    ask.refuses("a value without history that is written to a whole reference, on which JAX 0.10.2 itself fails")


def test_watch(ask):
    def loss(params, x):
        return accumulated(x, params["w"])

    last = ask.watched_function(descending(loss, {"w": jnp.array(0.7)}, [(given()[0],)] * 20))
    ask.rows(last, "params.w")
    ask.works("`bp.watch_function` over 20 steps")
