"""Keras: layers that are quantised, whose kernels are integers."""

import keras
import tensorflow as tf

import backprobe as bp

FRAMEWORK, LIBRARIES = "TensorFlow", ("keras",)
X = tf.constant([[0.5, -1.0, 2.0, 0.1], [1.5, 0.25, -0.75, -0.3]])


# https://keras.io/guides/quantization_overview/
def made(mode=None):
    keras.utils.set_random_seed(0)
    layers = [keras.layers.Dense(6, activation="relu", name="first"), keras.layers.Dense(2, name="second")]
    model = keras.Sequential([keras.Input((4,)), *layers])
    if mode:
        model.quantize(mode)
    return model


# https://keras.io/api/layers/core_layers/dense/ (LoRA on a layer that is quantised)
def adapted():
    model = made("int8")
    for layer in model.layers:
        layer.enable_lora(2)
        layer.lora_kernel_b.assign(tf.fill(layer.lora_kernel_b.shape, 0.1))
    return model


# https://keras.io/examples/keras_recipes/float8_training_and_inference_with_transformer/
def trained(around):
    model, optimizer = adapted(), keras.optimizers.SGD(0.01)
    with around(model, optimizer=optimizer) as seen:
        for _ in range(20):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((model(X) - 1.0) ** 2)
            gradients = tape.gradient(loss, model.trainable_variables)
            optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
    return seen, loss, [one.numpy() for one in model.trainable_variables]


# quantisation aware: rounding, with a straight-through gradient
@tf.custom_gradient
def rounded(w):
    return tf.round(w * 8.0) / 8.0, lambda g: g


def aware(x, w):
    weights = rounded(w)
    out = tf.matmul(x, weights)
    return tf.reduce_sum(out**2)


def fake(x, w):
    weights = tf.quantization.fake_quant_with_min_max_args(w, min=-1.0, max=1.0, num_bits=4)
    out = tf.matmul(x, weights)
    return tf.reduce_sum(out**2)


# planted
def cut(x, w):
    weights = tf.round(w * 8.0) / 8.0  # <- cut
    out = tf.matmul(x, weights)
    return tf.reduce_sum(out**2)


def nan(x, w):
    scale = tf.reduce_max(tf.abs(w - w))
    weights = tf.round(w / scale) * scale  # <- nan
    return tf.reduce_sum(tf.matmul(x, weights))


# asked
def by_tape(model, x):
    with tf.GradientTape() as tape:
        tape.watch(x)
        loss = tf.reduce_sum(model(x) ** 2)
    return tape.gradient(loss, [x, *model.trainable_variables])


def test_int8(ask):
    model = made("int8")
    rec = bp.probe(model, of=lambda y: tf.reduce_sum(y**2))(X)
    by_x, *_ = by_tape(model, X)
    ask.gradients(bp.probe(model, [":inputs"], of=lambda y: tf.reduce_sum(y**2))(X), {":inputs": by_x})
    ask.gradients(rec, {"second": 2 * rec["second"].value})
    ask.statuses(rec, {"first.kernel": "not_float"})
    ask.names(rec, "first", "second", "first.bias")
    ask.clean(rec)
    ask.works('`model.quantize("int8")`: layers and inputs, integer kernels as `not_float`')


def test_lora(ask):
    model = adapted()
    rec = bp.probe(model, of=lambda y: tf.reduce_sum(y**2))(X)
    right = {one.path: gradient for one, gradient in zip(model.trainable_variables, by_tape(model, X)[1:], strict=True)}
    for layer in ("first", "second"):
        for name in ("lora_kernel_a", "lora_kernel_b"):
            path = next(path for path in right if path.endswith(f"{layer}/{name}"))
            ask.gradients(rec, {f"{layer}.{name}": right[path]})
    ask.clean(rec)
    last = ask.watched(trained)
    ask.rows(last, "first.lora_kernel_a", "second.lora_kernel_b", "second")
    ask.works("LoRA on quantised layers, and `bp.watch` over 20 steps")


def test_straight_through(ask):
    inputs = X, tf.constant([[0.3], [-0.7], [0.2], [0.9]])
    rec = ask.function(aware, lambda: inputs)
    out = rec["out"].value
    right = tf.matmul(X, 2 * out, transpose_a=True)
    ask.gradients(rec, {"out": 2 * out, "w": right, "weights": right})
    ask.clean(rec)
    rec = ask.function(fake, lambda: inputs)
    out = rec["out"].value
    ask.gradients(rec, {"out": 2 * out, "w": tf.matmul(X, 2 * out, transpose_a=True)})
    ask.clean(rec)
    ask.works("straight-through rounding and `fake_quant`")


def test_planted(ask):
    inputs = X, tf.constant([[0.3], [-0.7], [0.2], [0.9]])
    ask.cut(ask.function(cut, lambda: inputs), cut)
    ask.nan(ask.function(nan, lambda: inputs, nonfinite=True), nan)
