"""Facts of useless gradients that the statistics of a run show, in Keras and JAX: planted, and healthy beside them."""

import jax
import jax.numpy as jnp
import keras
import pytest
import tensorflow as tf

import backprobe as bp

KINDS = "value", "grad", "param", "update"
STEPS = 25
FACTS = "lost_updates", "not_log_probabilities"


def alerts(folder):
    """The kinds of the facts that are said of a run, with their steps and names."""
    with bp.open_run(folder) as run:
        return [(one.kind, one.step, one.name) for one in run.alerts.of_kind(*FACTS)]


# Keras


@pytest.fixture(autouse=True)
def seeded():
    keras.utils.set_random_seed(0)  # layers draw the seeds of their weights when they are made


def network(*layers):
    return keras.Sequential([keras.Input((8,)), *layers])


def train_keras(folder, model, loss, rate):
    optimizer = keras.optimizers.SGD(rate)
    with bp.watch(model, folder, optimizer=optimizer, what=KINDS) as run:
        for at in range(STEPS):
            with tf.GradientTape() as tape:
                made = loss(model(tf.random.stateless_normal((16, 8), (0, at))))
            gradients = tape.gradient(made, model.trainable_variables)
            optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
            run.log(loss=made)
    return alerts(folder)


def classifier(last):
    return network(keras.layers.Dense(16, "tanh"), keras.layers.Dense(4), keras.layers.Activation(last))


def wide(dtype):
    # Without biases: they begin at 0, and what is added to next to nothing is not lost.
    options = {"use_bias": False, "dtype": dtype}
    hidden = [keras.layers.Dense(256, "tanh", name=f"hidden{at}", **options) for at in (0, 1)]
    return network(*hidden, keras.layers.Dense(1, **options))


CLASSES = [at % 4 for at in range(16)]
PICKED = {
    "gathered": lambda y: -tf.reduce_mean(tf.gather(y, CLASSES, batch_dims=1)),
    "times one-hot": lambda y: -tf.reduce_mean(tf.reduce_sum(tf.one_hot(CLASSES, 4) * y, 1)),
    "one minus": lambda y: 1 - tf.reduce_mean(tf.gather(y, CLASSES, batch_dims=1)),
    "cross entropy": lambda y: tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(CLASSES, y)),
    "a critic's": lambda y: -tf.reduce_mean(y),
}


@pytest.mark.parametrize(
    ("loss", "last", "step"),
    [
        ("gathered", None, 14),
        ("gathered", "softmax", 4),
        ("times one-hot", "softmax", 4),
        ("gathered", "log_softmax", None),
        ("times one-hot", "log_softmax", None),
        ("one minus", "softmax", None),
        ("cross entropy", None, None),
        ("a critic's", None, None),
    ],
)
def test_scores_that_keras_takes_for_log_probabilities(loss, last, step, tmp_path):
    found = train_keras(tmp_path, classifier(last), PICKED[loss], 0.1)
    assert found == ([("not_log_probabilities", step, "return")] if step else [])


@pytest.mark.parametrize(
    ("dtype", "rate", "is_lost"),
    [
        ("bfloat16", 1e-4, True),
        ("bfloat16", 1e-1, False),
        ("float32", 1e-4, False),
        ("mixed_bfloat16", 1e-4, False),  # its variables are of float32
    ],
)
def test_steps_of_keras_that_are_lost_in_rounding(dtype, rate, is_lost, tmp_path):
    found = train_keras(tmp_path, wide(dtype), lambda y: tf.reduce_mean((y - 1) ** 2), rate)
    assert found == [("lost_updates", 19, "hidden1.kernel")] * is_lost


# JAX


def weights(*sizes, dtype=jnp.float32):
    keys = jax.random.split(jax.random.key(0), len(sizes))
    pairs = zip(keys, sizes, sizes[1:], strict=False)
    return [(jax.random.normal(key, (a, b)) / a**0.5).astype(dtype) for key, a, b in pairs]


def scores_of(params, x):
    *hidden, last = params
    for one in hidden:
        x = jnp.tanh(x @ one)
    return x @ last


def train_jax(folder, loss, params, rate, given=lambda params: params):
    """Train by hand; ``given`` makes what the loss is given of the parameters that are stepped."""
    with bp.watch_function(loss, folder, what=KINDS[:3]) as run:

        @jax.jit
        def step(params, x):
            (made, stats), grads = run.value_and_grad(given(params), x)
            new = jax.tree.map(lambda one, by: one - (rate * by).astype(one.dtype), params, grads)
            return made, stats, jax.tree.map(jnp.subtract, new, params), new

        for key in jax.random.split(jax.random.key(1), STEPS):
            made, stats, updates, params = step(params, jax.random.normal(key, (16, 8)))
            run.record(stats, updates=updates)
            run.log(loss=made)
    return alerts(folder)


def picked(y):
    return -y[jnp.arange(16), jnp.array(CLASSES)].mean()


def of_scores(params, x):
    scores = scores_of(params, x)
    return picked(scores)


def of_probabilities(params, x):
    probabilities = jax.nn.softmax(scores_of(params, x))
    return -(jax.nn.one_hot(jnp.array(CLASSES), 4) * probabilities).sum(-1).mean()


def of_log_probabilities(params, x):
    logged = jax.nn.log_softmax(scores_of(params, x))
    return picked(logged)


def one_minus_probabilities(params, x):
    probabilities = jax.nn.softmax(scores_of(params, x))
    return 1 + picked(probabilities)


def of_a_critic(params, x):
    score = scores_of(params, x)
    return -score.mean()


def squared(params, x):
    return ((scores_of(params, x) - 1) ** 2).mean()


@pytest.mark.parametrize(
    ("loss", "found"),
    [
        (of_scores, [(6, "scores")]),
        (of_probabilities, [(4, "probabilities")]),
        (of_log_probabilities, []),
        (one_minus_probabilities, []),
        (of_a_critic, []),
    ],
)
def test_scores_that_a_loss_of_jax_takes_for_log_probabilities(loss, found, tmp_path):
    assert train_jax(tmp_path, loss, weights(8, 16, 4), 0.1) == [("not_log_probabilities", *one) for one in found]


def halved(params):
    return jax.tree.map(lambda one: one.astype(jnp.bfloat16), params)


@pytest.mark.parametrize(
    ("dtype", "rate", "given", "is_lost"),
    [
        (jnp.bfloat16, 1e-5, list, True),
        (jnp.bfloat16, 1e-1, list, False),
        (jnp.float32, 1e-5, list, False),
        (jnp.float32, 1e-5, halved, False),  # a copy in bfloat16 is given to the loss, and the parameters are stepped
    ],
    ids=["lost", "a larger rate", "float32", "a master copy"],
)
def test_steps_of_jax_that_are_lost_in_rounding(dtype, rate, given, is_lost, tmp_path):
    found = train_jax(tmp_path, squared, weights(8, 256, 256, 1, dtype=dtype), rate, given)
    assert found == [("lost_updates", 19, "params.1")] * is_lost
