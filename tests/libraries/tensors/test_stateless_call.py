"""Keras's `stateless_call`: a model as a function of its variables."""

import keras
import tensorflow as tf

FRAMEWORK, LIBRARIES = "TensorFlow", ("keras",)
X, Y = tf.constant([[0.5, -1.0, 2.0], [1.5, 0.25, -0.75]]), tf.constant([[1.0], [-1.0]])


# https://keras.io/guides/custom_train_step_in_jax/ (the same calls, with TensorFlow)
def made():
    keras.utils.set_random_seed(0)
    layers = [
        keras.layers.Dense(4, name="first"),
        keras.layers.BatchNormalization(name="norm"),
        keras.layers.Dropout(0.5, seed=1, name="drop"),
        keras.layers.Dense(1, name="second"),
    ]
    return keras.Sequential([keras.Input((3,)), *layers])


MODEL = made()


def loss_fn(trainable, fixed, x, y):
    out, _ = MODEL.stateless_call(trainable, fixed, x, training=False)
    error = out - y
    loss = tf.reduce_mean(error**2)
    return loss


# a step of gradient descent that is differentiated, as in meta-learning
def meta(trainable, fixed, x, y):
    with tf.GradientTape() as tape:
        for one in trainable:
            tape.watch(one)
        inner = loss_fn(trainable, fixed, x, y)
    gradients = tape.gradient(inner, trainable)
    moved = [one - 0.1 * gradient for one, gradient in zip(trainable, gradients, strict=True)]
    outer = loss_fn(moved, fixed, x, y)
    return outer


# the state of a model goes in and out
def training_state(trainable, fixed, x):
    out, changed = MODEL.stateless_call(trainable, fixed, x, training=True)
    mean = tf.reduce_mean(out**2)
    return mean


def stepped(around):
    trainable, fixed = (
        [tf.identity(one) for one in MODEL.trainable_variables],
        [one.value for one in MODEL.non_trainable_variables],
    )
    with around() as seen:
        with tf.GradientTape() as tape:
            for one in trainable:
                tape.watch(one)
            loss = loss_fn(trainable, fixed, X, Y)
        gradients = tape.gradient(loss, trainable)
        updated = [one - 0.1 * gradient for one, gradient in zip(trainable, gradients, strict=True)]
    return seen, loss, updated


# planted
def cut(trainable, fixed, x, y):
    out, _ = MODEL.stateless_call(trainable, fixed, x, training=False)
    held = tf.stop_gradient(out)  # <- cut
    return tf.reduce_mean((held - y) ** 2)


def nan(trainable, fixed, x, y):
    out, _ = MODEL.stateless_call(trainable, fixed, x, training=False)
    logs = tf.math.log(out - 100.0)  # <- nan
    return tf.reduce_mean(logs * y)


# asked
def given():
    trainable = [tf.identity(one) for one in MODEL.trainable_variables]
    return trainable, [tf.identity(one) for one in MODEL.non_trainable_variables], X, Y


def right_of(function, *args):
    with tf.GradientTape() as tape:
        for one in args[0]:
            tape.watch(one)
        result = function(*args)
    return {f"trainable.{at}": one for at, one in enumerate(tape.gradient(result, args[0]))}


def test_loss(ask):
    rec = ask.function(loss_fn, given)
    ask.gradients(rec, right_of(loss_fn, *given()) | {"error": rec["error"].value, "out": rec["error"].value})
    ask.names(rec, "trainable.0", "x", "out", "error", "loss")
    ask.clean(rec)
    ask.works("`stateless_call`: the variables that it is given, and what the loss binds")


def test_meta(ask):
    rec = ask.function(meta, given)
    ask.gradients(rec, right_of(meta, *given()) | {"outer": 1.0})
    ask.names(rec, "moved.0", "gradients.0", "inner")
    ask.clean(rec)
    ask.works("gradients through a step")


def test_state(ask):
    rec = ask.function(training_state, lambda: given()[:3], wrt="trainable")
    ask.names(rec, "out", "mean", "changed.0")
    ask.gradients(rec, {"out": rec["out"].value})
    ask.clean(rec)


def test_block(ask):
    rec = ask.block(stepped)
    ask.gradients(rec, {"loss": 1.0} | {f"trainable.{at}": rec[f"gradients.{at}"].value for at in range(2)})
    ask.clean(rec)
    ask.works("a block around a step")


def test_planted(ask):
    ask.cut(ask.function(cut, given), cut)
    ask.nan(ask.function(nan, given, nonfinite=True), nan)
