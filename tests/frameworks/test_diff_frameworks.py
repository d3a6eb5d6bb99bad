"""Comparing across frameworks, and measuring floors in each."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tensorflow as tf
import torch

import backprobe as bp

RNG = np.random.default_rng(0)
X, W, B = (RNG.standard_normal(shape).astype(np.float32) for shape in ((5, 4), (4, 3), (3,)))
ARRAYS = {"torch": torch.tensor, "jax": jnp.asarray, "tensorflow": tf.constant}


def in_torch(x, w, b):
    h = x @ w + b
    a = torch.tanh(h)
    loss = (a * a).sum()
    return loss


def in_jax(x, w, b):
    h = x @ w + b
    a = jnp.tanh(h)
    loss = (a * a).sum()
    return loss


def in_tensorflow(x, w, b):
    h = x @ w + b
    a = tf.tanh(h)
    loss = tf.reduce_sum(a * a)
    return loss


PROGRAMS = {"torch": in_torch, "jax": in_jax, "tensorflow": in_tensorflow}


def recorded(name, *, w=W, program=None):
    return bp.probe(program or PROGRAMS[name])(*map(ARRAYS[name], (X, w, B)))


@pytest.mark.parametrize("a", PROGRAMS)
@pytest.mark.parametrize("b", PROGRAMS)
def test_one_program_in_two_frameworks_agrees(a, b):
    report = bp.diff(recorded(a), recorded(b))
    report.assert_ok(strict=True)
    assert [row.a.name for row in report.rows] == ["x", "w", "b", "h", "a", "loss"]


@pytest.mark.parametrize("b", ["jax", "tensorflow"])
def test_a_port_with_another_function_is_found_in_its_line(b):
    def wrong(x, w, b):
        h = x @ w + b
        a = h * 1.01
        loss = (a * a).sum() if isinstance(a, jax.Array) else tf.reduce_sum(a * a)
        return loss

    found = bp.diff(recorded("torch"), recorded(b, program=wrong)).first
    assert found.name == "a" and found.source.text.strip() == "a = h * 1.01"


def test_a_backward_of_ones_own_in_jax_is_found():
    @jax.custom_vjp
    def tanh(x):
        return jnp.tanh(x)

    tanh.defvjp(lambda x: (jnp.tanh(x), x), lambda x, g: (g * (1 - jnp.tanh(x)),))

    def wrong(x, w, b):
        h = x @ w + b
        a = tanh(h)
        loss = (a * a).sum()
        return loss

    report = bp.diff(recorded("torch"), recorded("jax", program=wrong))
    assert report.first is None and report.first_backward.name == "h"


@pytest.mark.parametrize("other", ["jax", "tensorflow"])
def test_a_transposed_weight_has_a_layout(other):
    def transposed(x, w, b):
        h = x @ w.T + b if isinstance(x, jax.Array) else tf.matmul(x, w, transpose_b=True) + b
        a = jnp.tanh(h) if isinstance(x, jax.Array) else tf.tanh(h)
        loss = (a * a).sum() if isinstance(x, jax.Array) else tf.reduce_sum(a * a)
        return loss

    b = recorded(other, w=np.ascontiguousarray(W.T), program=transposed)
    assert bp.diff(recorded("torch"), b).first.kind == "shape"
    bp.diff(recorded("torch"), b, layout={"w": "T"}).assert_ok(strict=True)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_floor_is_measured_in_each_framework(name):
    floor = bp.noise_floor(PROGRAMS[name])(*map(ARRAYS[name], (X, W, B)))
    assert floor.values["x"].largest > 0 < floor.gradients["w"].rms
    for other in PROGRAMS:
        bp.diff(recorded(name), recorded(other), noise=floor).assert_ok(strict=True)
    lower = bp.noise_floor(PROGRAMS[name], precision="bfloat16")(*map(ARRAYS[name], (X, W, B)))
    assert lower.gradients["w"].rms > 100 * floor.gradients["w"].rms


def test_variables_and_keras_models_are_put_back():
    model = tf.keras.Sequential([tf.keras.layers.Dense(3, activation="tanh"), tf.keras.layers.Dense(1)])
    model.build((None, 4))
    before = [variable.numpy() for variable in model.variables]
    floor = bp.noise_floor(model, of=tf.reduce_sum)(tf.constant(X))
    assert all(np.array_equal(old, variable.numpy()) for old, variable in zip(before, model.variables, strict=True))
    assert floor.values["dense.kernel" if "dense.kernel" in floor.values else next(iter(floor.values))].largest > 0
    with pytest.raises(bp.Unsupported, match="a Variable keeps its dtype"):
        bp.noise_floor(model, of=tf.reduce_sum, precision="bfloat16")(tf.constant(X))
    assert all(np.array_equal(old, variable.numpy()) for old, variable in zip(before, model.variables, strict=True))


def test_a_model_of_equinox_moves():
    import equinox as eqx

    model = eqx.nn.Linear(4, 3, key=jax.random.key(0))
    before = np.asarray(model.weight)
    floor = bp.noise_floor(model, of=jnp.sum)(jnp.asarray(X[0]))
    assert floor.values["weight"].largest > 0 and np.array_equal(before, np.asarray(model.weight))


NUMBERS = RNG.standard_normal((6, 40)).astype(np.float32)
OPERATIONS = {
    "softmax": (lambda x: x.softmax(-1), lambda x: jax.nn.softmax(x, -1)),
    "gelu": (torch.nn.functional.gelu, lambda x: jax.nn.gelu(x, approximate=False)),
    "silu": (torch.nn.functional.silu, jax.nn.silu),
    "softplus": (torch.nn.functional.softplus, jax.nn.softplus),
    "tanh": (torch.tanh, jnp.tanh),
    "exp": (torch.exp, jnp.exp),
    "power": (lambda x: x.abs() ** 2.7, lambda x: jnp.abs(x) ** 2.7),
    "mean": (lambda x: x.mean(0), lambda x: x.mean(0)),
    "deviation": (lambda x: x.std(-1, unbiased=False), lambda x: x.std(-1)),
    "logsumexp": (lambda x: x.logsumexp(-1), lambda x: jax.scipy.special.logsumexp(x, -1)),
    "cumsum": (lambda x: x.cumsum(-1), lambda x: jnp.cumsum(x, -1)),
    "product": (lambda x: x @ x.T, lambda x: x @ x.T),
    "gamma": (lambda x: torch.lgamma(x.abs() + 0.5), lambda x: jax.scipy.special.gammaln(jnp.abs(x) + 0.5)),
    "layer norm": (
        lambda x: torch.nn.functional.layer_norm(x, (40,)),
        lambda x: (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5),
    ),
}


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("scale", [0.01, 1, 30])
def test_what_rounding_does_to_one_operation_is_not_blamed(name, scale):
    def recorded(of, x):
        def program(x):
            u = of(x)
            return (u * u).sum()

        return bp.probe(program)(x)

    x = NUMBERS * np.float32(scale)
    a, b = (recorded(of, to(x)) for of, to in zip(OPERATIONS[name], (torch.tensor, jnp.asarray), strict=True))
    report = bp.diff(a, b)
    assert report.first is None, str(report)
    assert all(row.value.excess < 0.5 for row in report.rows if row.a.name == "u")
