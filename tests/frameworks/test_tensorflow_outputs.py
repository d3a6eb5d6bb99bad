"""What a block of TensorFlow differentiates: what the program asked gradients of, if it asked for any."""

import keras
import pytest
import tensorflow as tf

import backprobe as bp


@pytest.fixture
def net():
    keras.utils.set_random_seed(0)
    return keras.Sequential([keras.Input((3,)), keras.layers.Dense(2), keras.layers.Dense(1)])


X, Y = tf.constant([[1.0, 2.0, 3.0], [0.0, 1.0, 0.5]]), tf.zeros((2, 1))


def outputs(rec):
    return [one.name for one in rec.outputs]


def step(net, optimizer):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((net(X) - Y) ** 2)
    optimizer.apply_gradients(zip(tape.gradient(loss, net.trainable_variables), net.trainable_variables, strict=True))
    return loss


def test_a_metric_after_the_loss(net):
    with bp.probe() as rec:
        loss = step(net, keras.optimizers.SGD(0.1))
        error = tf.reduce_mean(tf.abs(net(X) - Y))
    assert outputs(rec) == ["loss"]
    assert rec["error"].grad_or_none is None
    assert rec["loss"].value == loss and error > 0


def test_the_last_of_several_steps(net):
    optimizer = keras.optimizers.SGD(0.1)
    with bp.probe() as rec:
        for _ in range(2):
            loss = step(net, optimizer)
        largest = tf.reduce_max(net(X))
    assert outputs(rec) == ["loss#1"]
    assert rec["loss#1"].value == loss and largest.shape == ()


def test_the_norm_of_the_gradients_of_variables(net):
    with bp.probe() as rec:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((net(X) - Y) ** 2)
        gradients = tape.gradient(loss, net.trainable_variables)
        gradients, norm = tf.clip_by_global_norm(gradients, 1.0)
    assert outputs(rec) == ["loss"] and norm > 0


def test_several_targets_of_one_call(net):
    with bp.probe() as rec:
        with tf.GradientTape() as tape:
            y = net(X)
            one, other = tf.reduce_mean(y**2), tf.reduce_mean(tf.abs(y))
        gradients = tape.gradient([one, other], net.trainable_variables)
        largest = tf.reduce_max(y)
    assert outputs(rec) == ["one", "other"]
    assert largest.shape == ()
    assert (rec["y"].grad == y + tf.sign(y) / 2).numpy().all()
    assert len(gradients) == 4


def test_a_target_that_is_no_scalar_is_summed_as_the_tape_does(net):
    with bp.probe() as rec:
        with tf.GradientTape() as tape:
            losses = (net(X) - Y) ** 2
        gradients = tape.gradient(losses, net.trainable_variables)
    assert outputs(rec) == ["losses"]


def test_a_penalty_that_is_left_to_the_probe(net):
    with bp.probe() as rec:
        with tf.GradientTape() as tape:
            tape.watch(X)
            y = net(X)
        slope = tape.gradient(y, X)
        total = tf.reduce_mean((y - Y) ** 2) + tf.reduce_mean((tf.norm(slope, axis=1) - 1) ** 2)
    assert outputs(rec) == ["total"] and total > 0


def test_a_penalty_that_the_program_differentiates(net):
    with bp.probe() as rec:
        with tf.GradientTape() as outer:
            with tf.GradientTape() as tape:
                tape.watch(X)
                y = net(X)
            slope = tape.gradient(y, X)
            total = tf.reduce_mean((y - Y) ** 2) + tf.reduce_mean((tf.norm(slope, axis=1) - 1) ** 2)
        gradients = outer.gradient(total, net.trainable_variables)
        norm = tf.linalg.global_norm(gradients)
    assert (rec.output_keys, rec.record.default_output) == (("y", "total"), "total") and norm > 0


def test_of_says_otherwise(net):
    with bp.probe(of="error") as rec:
        step(net, keras.optimizers.SGD(0.1))
        error = tf.reduce_mean(tf.abs(net(X) - Y))
    assert outputs(rec) == ["error"] and error > 0
