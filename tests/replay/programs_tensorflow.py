"""TensorFlow and Keras programs that hold state, each in another place, as people write them.

They are made as those of ``programs_torch``. TensorFlow has no counterpart to ``.grad``, to ``requires_grad`` of a
tensor, to hooks, and to a mode that a layer keeps: gradients are returned, and ``training`` is an argument. In their
place are the flags ``trainable``, Variables of every kind, the states of layers and metrics, and the many generators.
"""

import random
import re
from dataclasses import dataclass, field

import keras
import numpy as np
import tensorflow as tf
from keras.src.backend.common import global_state
from tensorflow.python.eager import context

from replay.held import Held, Same, array_bytes, python_and_numpy, tick, walk


def describe(**roots):
    """A function that describes the state reached from some objects, and the random states."""

    def state():
        into = python_and_numpy() | {"random.eager": repr(context.context()._rng.getstate()).encode()}
        into["random.tensorflow"] = array_bytes(tf.random.get_global_generator().state)
        into["random.keras"] = array_bytes(global_state.get_global_attribute("global_seed_generator").state)
        seen = {}
        for name, root in roots.items():
            walk(name, root, leaf, into, seen)
        return into

    return state


def leaf(name, thing, into):
    if isinstance(thing, tf.Tensor):
        into[name], into[f"{name} is"] = array_bytes(thing), Same(thing)
    elif isinstance(thing, tf.Variable | keras.Variable):
        of_variable(name, thing, into)
    elif isinstance(thing, keras.layers.Layer):
        of_layer(name, thing, into)
    elif isinstance(thing, keras.optimizers.Optimizer | keras.metrics.Metric):
        of_variables(name, thing.variables, into)
    elif isinstance(thing, keras.random.SeedGenerator | tf.random.Generator):
        into[name] = array_bytes(thing.state)
    elif isinstance(thing, tf.Module):
        into[f"{name} attributes"] = ", ".join(sorted(vars(thing)))
        of_variables(name, thing.variables, into)
        for key, value in vars(thing).items():
            if isinstance(value, int | float | str | None):
                into[f"{name}.{key}"] = repr(value)
    elif isinstance(thing, int | float | str | bytes | None):
        into[name] = repr(thing)
    else:
        return False
    return True


def of_variable(name, variable, into):
    into[name], into[f"{name} is"] = array_bytes(variable.numpy()), Same(variable)
    into[f"{name} trainable"] = variable.trainable
    if isinstance(variable, keras.Variable):
        into[f"{name} value is"] = Same(variable.value)


def of_variables(name, variables, into):
    into[f"{name} variables"] = len(variables)
    for number, variable in enumerate(variables):
        own = re.sub(r"_\d+", "", variable.name.split(":")[0])  # Keras counts its layers through
        of_variable(f"{name}.{number}:{own}", variable, into)


def of_layer(name, layer, into):
    for path, each in enumerate(layer._flatten_layers()):
        into[f"{name}.{path} is"], into[f"{name}.{path} trainable"] = Same(each), each.trainable
        into[f"{name}.{path} attributes"] = ", ".join(sorted(vars(each)))
    of_variables(name, layer.variables, into)


def seeded():
    keras.utils.set_random_seed(3)
    tf.random.set_global_generator(tf.random.Generator.from_seed(4))
    keras.random.uniform(())  # makes Keras's own generator
    tf.random.uniform(())  # makes the eager context's own


def positive(*shape):
    return tf.constant(np.random.default_rng(sum(shape)).uniform(0.5, 1.5, shape).astype("float32"))


def infinite(x):
    x = np.array(x)
    x.reshape(-1)[0] = np.inf
    return tf.constant(x)


def final(y):
    return tf.math.log(tf.reduce_mean(tf.square(y)))


def built(layer, *shape):
    layer.build(shape)
    return layer


MOVING = "*:moving_*"


# Variables of layers, by where the program finds the layer


class Critic(keras.Model):
    # https://www.tensorflow.org/tutorials/generative/dcgan, with smaller layers, and a norm as in its generator
    def __init__(self):
        super().__init__()
        self.conv = keras.layers.Conv2D(2, (3, 3), strides=(2, 2), padding="same")
        self.norm = keras.layers.BatchNormalization()
        self.dense = keras.layers.Dense(1)

    def call(self, image, training=None):
        tick()
        h = self.norm(self.conv(image), training=training)
        tick()
        score = self.dense(keras.ops.reshape(keras.ops.leaky_relu(h), (4, -1)))
        return final(score)


def batchnorm_of_a_model():
    seeded()
    model, x = Critic(), positive(4, 4, 4, 1)
    model(x)
    held = Held(model, (x,), describe(model=model, x=x), (f"model{MOVING}",), (infinite(x),), select=":h")
    held.kwargs, held.guarded = {"training": True}, model
    return held


def batchnorm_of_a_closure():
    seeded()
    layer, norm, x = built(keras.layers.Dense(4), 5, 3), built(keras.layers.BatchNormalization(), 5, 4), positive(5, 3)

    def f(x):
        tick()
        h = layer(x)
        tick()
        y = norm(h, training=True)
        tick()
        return final(y * h)

    return Held(f, (x,), describe(layer=layer, norm=norm, x=x), (f"norm{MOVING}",), (infinite(x),))


NORM = None


def on_the_global(x):
    tick()
    h = NORM(x, training=True)
    tick()
    return final(h * x)


def batchnorm_of_a_global():
    global NORM
    seeded()
    NORM, x = built(keras.layers.BatchNormalization(), 5, 3), positive(5, 3)
    return Held(on_the_global, (x,), describe(norm=NORM, x=x), (f"norm{MOVING}",), (infinite(x),))


def batchnorm_of_an_argument():
    seeded()
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(4), keras.layers.BatchNormalization()])

    def loss(model, x):
        tick()
        h = model(x, training=True)
        tick()
        return final(h + 0.1)

    x = positive(5, 3)
    return Held(loss, (model, x), describe(model=model, x=x), (f"model{MOVING}",), (model, infinite(x)))


class Trainer:
    __slots__ = ("norm", "steps")

    def __init__(self):
        self.norm, self.steps = built(keras.layers.BatchNormalization(), 5, 3), tf.Variable(0, trainable=False)

    def loss(self, x):
        tick()
        self.steps.assign_add(1)
        h = self.norm(x, training=True)
        tick()
        return final(h * x)


def batchnorm_in_a_slot():
    seeded()
    trainer, x = Trainer(), positive(5, 3)
    return Held(
        trainer.loss, (x,), describe(trainer=trainer, x=x), (f"trainer.norm{MOVING}", "trainer.steps"), (infinite(x),)
    )


@dataclass
class Parts:
    norms: list = field(default_factory=lambda: [built(keras.layers.BatchNormalization(), 5, 3) for _ in range(2)])
    counts: dict = field(default_factory=lambda: {"seen": tf.Variable([0, 0], dtype=tf.int64)})


def batchnorm_in_containers():
    seeded()
    parts, x = Parts(), positive(5, 3)

    def f(x):
        tick()
        h = x
        for norm in parts.norms:
            h = norm(h, training=True) + x
            tick()
        parts.counts["seen"].scatter_nd_add([[1]], [5])
        return final(h)

    written = (f"parts.norms.0{MOVING}", f"parts.norms.1{MOVING}", "parts.counts.seen")
    return Held(f, (x,), describe(parts=parts, x=x), written, (infinite(x),), select="h*")


def batchnorm_made_at_the_first_call():
    # What the program puts into its own dict stays there. The layer in it is to be as it was when it was made.
    seeded()
    cache = {}

    def norm_of(width):
        if width not in cache:
            cache[width] = keras.layers.BatchNormalization()
        return cache[width]

    def f(x):
        tick()
        h = norm_of(x.shape[1])(x, training=True)
        tick()
        return final(h * x)

    def variables():
        norm = cache.get(3)
        moving = [norm.moving_mean, norm.moving_variance] if norm and norm.built else [np.zeros(3), np.ones(3)]
        return {f"moving {number}": array_bytes(np.float32(each)) for number, each in enumerate(moving)}

    x = positive(5, 3)
    others = describe(x=x)
    return Held(f, (x,), lambda: others() | variables(), ("moving *",), (infinite(x),))


class FlexibleDense(tf.Module):
    # https://www.tensorflow.org/guide/intro_to_modules: its Variables are made at the first call
    def __init__(self):
        super().__init__()
        self.is_built, self.calls = False, tf.Variable(0, dtype=tf.int64, trainable=False)

    def __call__(self, x):
        if not self.is_built:
            self.w = tf.Variable(tf.random.normal([x.shape[-1], 2]), name="w")
            self.is_built = True
        self.calls.assign_add(len(x))
        tick()
        return tf.matmul(x, self.w)


def module_of_variables():
    seeded()
    dense, x = FlexibleDense(), positive(5, 3)
    dense(x)

    def f(x):
        tick()
        h = dense(x)
        tick()
        return final(h)

    return Held(f, (x,), describe(dense=dense, x=x), ("dense.*:Variable",), (infinite(x),))


# Other Variables that a call writes


def spectral_norm_of_a_critic():
    # https://keras.io/api/layers/normalization_layers/spectral_normalization/: a step of power iteration in each call
    seeded()
    critic, x = keras.layers.SpectralNormalization(keras.layers.Dense(4), power_iterations=1), positive(5, 3)
    critic(x)

    def f(x):
        tick()
        h = critic(x, training=True)
        tick()
        return final(h)

    return Held(f, (x,), describe(critic=critic, x=x), ("critic.*",), (infinite(x),))


class Quantizer(tf.Module):
    # https://github.com/google-deepmind/sonnet/blob/v2/sonnet/src/nets/vqvae.py: VectorQuantizerEMA
    def __init__(self):
        super().__init__()
        start = tf.random.normal((3, 4))
        self.embeddings = tf.Variable(start, trainable=False, name="embeddings")
        self.cluster_size = tf.Variable(tf.zeros(4), trainable=False, name="cluster_size")
        self.dw = tf.Variable(start, trainable=False, name="dw")

    def __call__(self, x):
        tick()
        distances = tf.reduce_sum(tf.square(x[:, :, None] - self.embeddings[None]), 1)
        encodings = tf.one_hot(tf.argmin(distances, 1), 4)
        quantized = tf.matmul(encodings, self.embeddings, transpose_b=True)
        tick()
        self.cluster_size.assign(self.cluster_size * 0.9 + 0.1 * tf.reduce_sum(encodings, 0))
        self.dw.assign(self.dw * 0.9 + 0.1 * tf.matmul(x, encodings, transpose_a=True))
        tick()
        self.embeddings.assign(self.dw / (self.cluster_size + 1e-2))
        return x + tf.stop_gradient(quantized - x)


def codebook_of_moving_averages():
    seeded()
    quantizer, x = Quantizer(), positive(5, 3)

    def f(x):
        tick()
        h = quantizer(x)
        return final(h)

    written = ("quantizer.*:embeddings", "quantizer.*:cluster_size", "quantizer.*:dw")
    return Held(f, (x,), describe(quantizer=quantizer, x=x), written, (infinite(x),))


def average_of_weights():
    # https://www.tensorflow.org/api_docs/python/tf/train/ExponentialMovingAverage
    seeded()
    w, x = tf.Variable(tf.random.normal((3, 2))), positive(5, 3)
    ema = tf.train.ExponentialMovingAverage(decay=0.9)
    ema.apply([w])
    w.assign_add(tf.ones((3, 2)))

    def f(x):
        tick()
        ema.apply([w])
        tick()
        h = tf.matmul(x, w - ema.average(w))
        return final(h)

    return Held(f, (x,), describe(w=w, average=ema.average(w), x=x), ("average",), (infinite(x),))


def target_network():
    # https://keras.io/examples/rl/ddpg_pendulum/: update_target, within what is called
    seeded()
    actor, target = built(keras.layers.Dense(2), 5, 3), built(keras.layers.Dense(2), 5, 3)
    x = positive(5, 3)

    def f(x):
        tick()
        moved = [b * (1 - 0.05) + a * 0.05 for a, b in zip(actor.get_weights(), target.get_weights())]
        target.set_weights(moved)
        tick()
        h = actor(x) - target(x)
        return final(h)

    return Held(f, (x,), describe(actor=actor, target=target, x=x), ("target.*:kernel",), (infinite(x),))


def states_of_a_stateful_lstm():
    # https://www.tensorflow.org/guide/keras/working_with_rnns#cross-batch_statefulness
    seeded()
    lstm, x = keras.layers.LSTM(2, stateful=True), positive(4, 3, 2)
    lstm(x)

    def f(x):
        tick()
        h = lstm(x)
        tick()
        return final(h)

    # its states are not among its Variables
    return Held(f, (x,), describe(lstm=lstm, states=list(lstm.states), x=x), ("states.?",), (infinite(x) * 0.0,))


def metric_that_a_loss_updates():
    # https://keras.io/examples/generative/vae/: loss trackers
    seeded()
    layer, tracker, x = built(keras.layers.Dense(2), 5, 3), keras.metrics.Mean(name="loss"), positive(5, 3)

    def f(x):
        tick()
        h = layer(x)
        loss = final(h)
        tick()
        tracker.update_state(loss)
        tick()
        return loss

    return Held(f, (x,), describe(layer=layer, tracker=tracker, x=x), ("tracker.*",), (infinite(x),))


def counter_in_a_compiled_function():
    seeded()
    seen, x = tf.Variable(0, trainable=False), positive(5, 3)

    @tf.function
    def scaled(x):
        seen.assign_add(1)
        return x * (1.0 + tf.cast(seen, tf.float32))

    scaled(x)

    def f(x):
        tick()
        h = scaled(x)
        tick()
        return final(h)

    return Held(f, (x,), describe(seen=seen, x=x), ("seen",), (infinite(x),))


# Flags


def frozen_base():
    # https://www.tensorflow.org/tutorials/images/transfer_learning: the base is frozen, and its norm with it
    seeded()
    base = keras.Sequential([keras.Input((3,)), keras.layers.Dense(4), keras.layers.BatchNormalization()])
    head, free, x = built(keras.layers.Dense(1), 5, 4), built(keras.layers.BatchNormalization(), 5, 4), positive(5, 3)
    base.trainable = False

    def f(x):
        tick()
        h = base(x, training=True)
        tick()
        return final(head(free(h, training=True)) + 0.1)

    return Held(f, (x,), describe(base=base, head=head, free=free, x=x), (f"free{MOVING}",), (infinite(x),))


def flag_set_in_a_call():
    # as https://github.com/eriklindernoren/Keras-GAN/blob/master/gan/gan.py freezes a critic for one of the losses
    seeded()
    critic, x = built(keras.layers.Dense(2), 5, 3), positive(5, 3)

    def f(x):
        tick()
        critic.trainable = not critic.trainable
        h = critic(x)
        tick()
        return final(h)

    return Held(f, (x,), describe(critic=critic, x=x), ("critic.* trainable",), (infinite(x),))


# Random states


def dropout_of_a_model():
    # https://www.tensorflow.org/tutorials/quickstart/beginner, with smaller layers
    seeded()
    layers = [keras.layers.Dense(6, activation="relu"), keras.layers.Dropout(0.5), keras.layers.Dense(2)]
    model = keras.Sequential([keras.Input((3,)), *layers])

    def f(x):
        tick()
        h = model(x, training=True)
        tick()
        return final(h + 0.1)

    x = positive(5, 3)
    held = Held(f, (x,), describe(model=model, x=x), ("model.*:seed_generator_state",), (infinite(x),))
    held.guarded = model
    return held


class Noisy(keras.layers.Layer):
    # https://keras.io/api/random/seed_generator/
    def __init__(self):
        super().__init__()
        self.seed_generator = keras.random.SeedGenerator(1337)

    def call(self, x):
        tick()
        return x + 0.1 * keras.random.normal(keras.ops.shape(x), seed=self.seed_generator)


def seed_generators_of_the_program():
    seeded()
    noisy, own, x = Noisy(), keras.random.SeedGenerator(5), positive(5, 3)

    def f(x):
        tick()
        h = noisy(x) + 0.1 * keras.random.uniform((5, 3), seed=own)
        tick()
        return final(h)

    written = ("noisy.*:seed_generator_state", "own")
    return Held(f, (x,), describe(noisy=noisy, own=own, x=x), written, (infinite(x),))


class Noise:
    def __init__(self):
        self.tensorflow, self.numpy = tf.random.Generator.from_seed(6), np.random.default_rng(7)
        self.python = random.Random(8)


def generators_of_the_program():
    # https://www.tensorflow.org/guide/random_numbers
    seeded()
    noise, kept, x = Noise(), {"g": tf.random.Generator.from_seed(9)}, positive(5, 3)

    def f(x):
        tick()
        h = x + 0.1 * noise.tensorflow.normal((5, 3)) + 0.1 * kept["g"].uniform((5, 3))
        tick()
        h = h * noise.numpy.uniform(0.9, 1.1) * noise.python.uniform(0.9, 1.1)
        tick()
        return final(h)

    state = describe(a=noise.tensorflow, b=noise.numpy, c=noise.python, kept=kept, x=x)
    return Held(f, (x,), state, ("[abc]", "kept.g"), (infinite(x),), select="h*")


def generators_that_are_global():
    # https://keras.io/examples/vision/mixup/, which draws with TensorFlow; here with each library's global state
    seeded()
    layer, x = built(keras.layers.Dense(2), 5, 3), positive(5, 3)

    def f(x):
        tick()
        lam = np.random.beta(1.0, 1.0)
        h = lam * x + (1 - lam) * tf.gather(x, tf.random.shuffle(tf.range(5)))
        tick()
        h = h + 0.1 * tf.random.normal((5, 3)) + 0.1 * tf.random.get_global_generator().normal((5, 3))
        tick()
        h = h * random.uniform(0.9, 1.1) + 0.1 * keras.random.uniform((5, 3))
        return final(layer(h))

    return Held(f, (x,), describe(layer=layer, x=x), ("random.*",), (infinite(x),), select="h*")


def custom_gradient_that_draws():
    seeded()
    generator, seen, x = tf.random.Generator.from_seed(9), tf.Variable(0, trainable=False), positive(5, 3)

    @tf.custom_gradient
    def rounded(x):
        seen.assign_add(1)
        y = tf.floor(x + generator.uniform(x.shape)) + 1.0

        def backward(gradient):
            tick()
            return gradient

        return y, backward

    def f(x):
        tick()
        h = rounded(x)
        tick()
        return final(h * x)

    return Held(f, (x,), describe(generator=generator, seen=seen, x=x), ("generator", "seen"), (infinite(x),))


# Optimizers


def optimizer_that_steps():
    # https://www.tensorflow.org/guide/keras/writing_a_custom_training_loop_in_tensorflow
    seeded()
    model, x, y = built(keras.layers.Dense(1), 5, 3), positive(5, 3), positive(5, 1)
    optimizer, metric = keras.optimizers.Adam(0.01), keras.metrics.MeanSquaredError(name="error")
    optimizer.build(model.trainable_variables)

    def step(x, y):
        tick()
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model(x) - y))
        gradients = tape.gradient(loss, model.trainable_weights)
        tick()
        optimizer.apply(gradients, model.trainable_weights)
        tick()
        metric.update_state(y, model(x))
        h = model(x)
        return final(h - y)

    state = describe(model=model, optimizer=optimizer, metric=metric, x=x, y=y)
    written = ("model.*:kernel", "model.*:bias", "optimizer.*", "metric.*")
    return Held(step, (x, y), state, written, (infinite(x), y))


def optimizer_that_is_held():
    seeded()
    model, norm = built(keras.layers.Dense(4), 5, 3), built(keras.layers.BatchNormalization(), 5, 4)
    optimizer, x = keras.optimizers.SGD(0.1, momentum=0.9), positive(5, 3)
    optimizer.build(model.trainable_variables)
    optimizer.apply([tf.ones_like(each) for each in model.trainable_variables], model.trainable_variables)

    def f(x):
        tick()
        h = norm(model(x), training=True)
        tick()
        return final(h + tf.convert_to_tensor(optimizer.learning_rate))

    state = describe(model=model, norm=norm, optimizer=optimizer, x=x)
    return Held(f, (x,), state, (f"norm{MOVING}",), (infinite(x),))


# Arguments


@dataclass
class Batch:
    x: tf.Tensor
    mask: tf.Tensor
    extra: dict


def containers_of_the_caller():
    seeded()
    norm = built(keras.layers.BatchNormalization(), 5, 3)
    batch = Batch(positive(5, 3), tf.constant([1.0, 1.0, 0.0, 1.0, 1.0]), {"y": positive(5, 3), "norm": norm})
    weights = [tf.Variable(positive(3, 1)[:, 0]), positive(1, 3)]

    def f(batch, weights):
        tick()
        h = batch.extra["norm"](batch.x, training=True) * weights[0] + weights[1]
        tick()
        error = tf.reduce_mean(tf.square(h - batch.extra["y"]), 1)
        return tf.math.log(tf.reduce_sum(error * batch.mask))

    bad = Batch(infinite(batch.x), batch.mask, batch.extra)
    state = describe(batch=batch, weights=weights)
    return Held(f, (batch, weights), state, (f"batch.extra.norm{MOVING}",), (bad, weights))


PROGRAMS = [
    batchnorm_of_a_model,
    batchnorm_of_a_closure,
    batchnorm_of_a_global,
    batchnorm_of_an_argument,
    batchnorm_in_a_slot,
    batchnorm_in_containers,
    batchnorm_made_at_the_first_call,
    module_of_variables,
    spectral_norm_of_a_critic,
    codebook_of_moving_averages,
    average_of_weights,
    target_network,
    states_of_a_stateful_lstm,
    metric_that_a_loss_updates,
    counter_in_a_compiled_function,
    frozen_base,
    flag_set_in_a_call,
    dropout_of_a_model,
    seed_generators_of_the_program,
    generators_of_the_program,
    generators_that_are_global,
    custom_gradient_that_draws,
    optimizer_that_steps,
    optimizer_that_is_held,
    containers_of_the_caller,
]


def forward(held, args):
    return held.target(*args, **held.kwargs)


def train(held, args):
    """A step as a training takes it, without the update."""
    leaves = [each for each in tf.nest.flatten(list(args)) if isinstance(each, tf.Tensor) and each.dtype.is_floating]
    if isinstance(args[0], Batch):
        leaves.append(args[0].x)
    if held.guarded is not None:
        leaves += held.guarded.trainable_variables
    with tf.GradientTape() as tape:
        tape.watch([each for each in leaves if isinstance(each, tf.Tensor)])
        loss = held.target(*args, **held.kwargs)
    tape.gradient(loss, leaves)


def fail(held):
    """What runs until a guard raises: the call of a model, and all of a block."""
    step = forward if held.guarded is not None else train
    step(held, held.bad)
