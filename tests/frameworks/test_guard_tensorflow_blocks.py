"""``bp.guard`` without a model in TensorFlow: the variables of the block, from one ``tape.gradient`` to the next."""

from __future__ import annotations

import contextlib
import gc
import weakref

import keras
import numpy as np
import pytest
import tensorflow as tf

import backprobe as bp


class Parameters(tf.Module):
    def __init__(self):
        super().__init__()
        self.w, self.b = tf.Variable([1.0, 1.0]), tf.Variable(0.5)


def loss_of(w, b, x):
    h = w * x
    root = tf.sqrt(tf.reduce_sum(h))
    return root + b


def step(own, x):
    with tf.GradientTape() as tape:
        loss = loss_of(own.w, own.b, x)
    gradients = tape.gradient(loss, [own.w, own.b])
    own.w.assign_sub(0.1 * gradients[0])
    return loss


def test_a_tape_that_gives_nan_raises_with_the_operation_before_the_update():
    own, seen = Parameters(), []
    with pytest.raises(bp.NotFinite) as caught, bp.guard():
        for scale in (1.0, 2.0, 0.0):
            step(own, tf.ones(2) * scale)
            seen.append(scale)
    assert seen == [1.0, 2.0]
    assert np.isfinite(own.w.numpy()).all()
    assert caught.value.headline == "NaN in gradients after tape.gradient()"
    first = caught.value.report.findings[0]
    assert (
        first.headline == "Inf is born in the backward of '/step/loss_of:root': the derivative of sqrt is infinite at 0"
    )
    assert first.source.text.strip() == "root = tf.sqrt(tf.reduce_sum(h))"


def mean_of_none(w):
    picked = tf.boolean_mask(w, w < 0)
    return tf.reduce_mean(picked)


def overflow(w):
    out = w + 1e20
    return tf.reduce_mean(tf.square(out))


@pytest.mark.parametrize(
    ("objective", "born"), [(mean_of_none, "0/0: of too few numbers"), (overflow, "overflow: float32 ends at 3.40e38")]
)
def test_a_bad_loss_raises_though_its_gradients_are_finite(objective, born):
    w, seen = tf.Variable([1.0, 2.0]), []
    with pytest.raises(bp.NotFinite) as caught, bp.guard():
        for loss_of in (tf.reduce_sum, objective):
            with tf.GradientTape() as tape:
                loss = loss_of(w)
            seen.append(tape.gradient(loss, w))
    assert len(seen) == 1
    assert caught.value.headline.endswith(" in what tape.gradient() ran from")
    assert caught.value.report.findings[0].headline.endswith(born)


def test_the_line_of_the_loss_is_found_where_a_keras_model_is_called():
    net = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    with pytest.raises(bp.NotFinite) as caught, bp.guard():
        for shift in (1.0, 0.0):
            with tf.GradientTape() as tape:
                out = net(tf.ones((2, 2))) * 0
                loss = tf.reduce_mean(tf.math.log(out + shift))
            tape.gradient(loss, net.trainable_variables)
    first = caught.value.report.findings[0]
    assert first.headline.startswith("Inf is born at 'loss': log(0)")


def test_the_program_may_go_on_after_it_has_caught_the_error():
    own, skipped = Parameters(), 0
    with bp.guard():
        for scale in (0.0, 1.0, 0.0, 1.0):
            try:
                step(own, tf.ones(2) * scale)
            except bp.NotFinite as error:
                assert "sqrt" in error.report.findings[0].headline
                skipped += 1
    assert skipped == 2


def test_values_are_looked_at_where_no_gradient_is_taken():
    with pytest.raises(bp.NotFinite, match="'ratio': 0/0"), bp.guard():
        x = tf.zeros(2)
        ratio = x / x
    with bp.guard(allow="ratio"):
        ratio = x / x
    assert ratio.shape == (2,)


def test_allowed_places_do_not_raise():
    own = Parameters()
    with bp.guard(allow=["step/loss_of:root", "/step/loss_of:h", "/step/loss_of:root"]):
        step(own, tf.zeros(2))


def test_a_gradient_inside_another_tape_is_a_part_of_the_loss():
    w = tf.Variable([1.0, 2.0])
    with bp.guard():
        x = tf.zeros(2)
        with tf.GradientTape() as tape:
            with tf.GradientTape() as inner:
                inner.watch(x)
                length = tf.sqrt(tf.reduce_sum(x * x))
            slope = tf.stop_gradient(inner.gradient(length, x))
            loss = tf.reduce_sum(tf.where(tf.math.is_finite(slope), slope, 0.0) + w)
        tape.gradient(loss, w)


def test_an_overflow_that_a_loss_scale_handles_does_not_raise():
    net = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    optimizer = keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.1), initial_scale=2.0**126)
    optimizer.build(net.trainable_variables)
    with bp.guard():
        for _ in range(3):
            with tf.GradientTape() as tape:
                scaled = optimizer.scale_loss(tf.reduce_sum(net(tf.fill((2, 2), 100.0))))
            optimizer.apply(tape.gradient(scaled, net.trainable_variables), net.trainable_variables)
    assert float(optimizer.dynamic_scale) == 2.0**123


def test_sparse_gradients_are_read():
    embed = keras.layers.Embedding(5, 3)
    embed.build()
    with pytest.raises(bp.NotFinite, match="in gradients after"), bp.guard():
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(embed(tf.constant([[1, 2]]))) * np.nan
        tape.gradient(loss, embed.trainable_variables)


def test_what_is_compiled_is_said():
    own = Parameters()
    compiled = tf.function(step)
    with pytest.warns(UserWarning, match=r"saw no gradient: step ran compiled, .* tf.config.run_functions") as caught:
        with bp.guard():
            for _ in range(3):
                compiled(own, tf.ones(2))
    assert len(caught) == 1
    assert caught[0].filename == __file__


def test_the_framework_is_that_of_a_function_around_where_the_block_mentions_none():
    source = "def run(work, guard):\n    with guard():\n        return work()\n"
    found: dict = {}
    exec(compile(source, __file__ + "_elsewhere.py", "exec"), found)
    own = Parameters()
    with pytest.raises(bp.NotFinite, match="after tape.gradient"):
        found["run"](lambda: step(own, tf.zeros(2)), bp.guard)


def trained(guarded):
    keras.utils.set_random_seed(3)
    net = keras.Sequential([keras.Input((4,)), keras.layers.Dense(8), keras.layers.Dropout(0.2), keras.layers.Dense(1)])
    optimizer, losses = keras.optimizers.Adam(0.01), []
    with guarded():
        for _ in range(10):
            x = tf.random.normal((16, 4))
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((net(x, training=True)[:, 0] - tf.reduce_sum(x, 1)) ** 2)
            optimizer.apply_gradients(zip(tape.gradient(loss, net.trainable_variables), net.trainable_variables))
            losses.append(float(loss))
    return losses, [variable.numpy() for variable in net.variables], tf.random.uniform((3,)).numpy()


def test_ten_steps_are_bitwise_the_same():
    bare, guarded = trained(contextlib.nullcontext), trained(bp.guard)
    assert bare[0] == guarded[0]
    assert all(np.array_equal(one, other) for one, other in zip(bare[1], guarded[1], strict=True))
    assert np.array_equal(bare[2], guarded[2])


def test_steps_that_are_over_are_not_kept_nor_is_an_evaluation():
    own, kept = Parameters(), []

    def evaluate():
        for _ in range(400):
            value = tf.reduce_sum(own.w * 2)
            kept.append(weakref.ref(value))

    with bp.guard():
        for _ in range(4):
            kept.append(weakref.ref(step(own, tf.ones(2))))
        gc.collect()
        assert sum(one() is not None for one in kept) <= 1
        evaluate()
        gc.collect()
        assert sum(one() is not None for one in kept) < 200
