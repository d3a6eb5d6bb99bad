"""Trainings in TensorFlow that let something outlive its step, at the line marked ``# here``, and healthy ones."""

import functools
from collections import deque

import keras
import numpy
import tensorflow as tf

N = 5
TAPES, OUTPUTS, BUFFER, ERRORS = [], {}, deque(maxlen=100), []


def setting():
    random = numpy.random.default_rng(0)
    a, b = (tf.Variable(random.normal(size=shape).astype("float32")) for shape in ((4, 8), (8, 2)))
    return (a, b), [tf.constant(random.normal(size=(3, 4)).astype("float32")) for _ in range(N)]


def forward(weights, x):
    return tf.tanh(x @ weights[0]) @ weights[1]


def move(weights, gradients, rate=0.01):
    for own, gradient in zip(weights, gradients, strict=True):
        own.assign_sub(rate * gradient)


# what outlives its step


def tapes_in_a_list(watch):
    weights, batches = setting()
    tapes = []
    with watch(None):
        for x in batches:
            with tf.GradientTape(persistent=True) as tape:
                loss = tf.reduce_mean(forward(weights, x) ** 2)
            tapes.append(tape)  # here
            move(weights, tape.gradient(loss, weights))
            watch.step()


def tapes_of_a_module(watch):
    weights, batches = setting()
    TAPES.clear()
    with watch(None):
        for x in batches:
            with tf.GradientTape(persistent=True) as tape:
                loss = tf.reduce_mean(forward(weights, x) ** 2)
            TAPES.append((loss, tape))  # here
            move(weights, tape.gradient(loss, weights))
            watch.step()


def tapes_by_step(watch):
    weights, batches = setting()
    kept = {}
    with watch(None):
        for at, x in enumerate(batches):
            kept[at] = tf.GradientTape(persistent=True)  # here
            with kept[at]:
                loss = tf.reduce_mean(forward(weights, x) ** 2)
            move(weights, kept[at].gradient(loss, weights))
            watch.step()


def one_tape_around_all(watch):
    weights, batches = setting()
    with watch(None), tf.GradientTape(persistent=True) as tape:  # here
        for x in batches:
            loss = tf.reduce_mean(forward(weights, x) ** 2)
            with tape.stop_recording():
                move(weights, tape.gradient(loss, weights))
            watch.step()


def one_tape_that_goes_on(watch):
    weights, batches = setting()
    tape = tf.GradientTape(persistent=True)  # here
    with watch(None):
        for x in batches:
            with tape:
                loss = tf.reduce_mean(forward(weights, x) ** 2)
            move(weights, tape.gradient(loss, weights))
            watch.step()


def an_attribute(watch):
    class Trainer:
        def __init__(self):
            self.tapes = []

        def train(self, weights, x):
            with tf.GradientTape(persistent=True) as tape:
                loss = tf.reduce_mean(forward(weights, x) ** 2)
            self.tapes.append(tape)  # here
            return tape.gradient(loss, weights)

    weights, batches = setting()
    trainer = Trainer()
    with watch(None):
        for x in batches:
            move(weights, trainer.train(weights, x))
            watch.step()


def a_tape_that_is_never_asked(watch):
    weights, batches = setting()
    measured = []
    with watch(None):
        for x in batches:
            with tf.GradientTape() as other:
                score = tf.reduce_sum(forward(weights, x))
            measured.append((float(score), other))  # here
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(forward(weights, x) ** 2)
            move(weights, tape.gradient(loss, weights))
            watch.step()


def a_closure_of_a_tape(watch):
    weights, batches = setting()
    later = []
    with watch(None):
        for x in batches:
            with tf.GradientTape(persistent=True) as tape:
                loss = tf.reduce_mean(forward(weights, x) ** 2)
            later.append(lambda loss=loss, tape=tape: tape.gradient(loss, weights))  # here
            move(weights, tape.gradient(loss, weights))
            watch.step()


def outputs_in_a_list(watch):
    weights, batches = setting()
    outputs = []
    with watch(None):
        for x in batches:
            with tf.GradientTape() as tape:
                out = forward(weights, x)
                loss = tf.reduce_mean(out**2)
            outputs.append(out)  # here
            move(weights, tape.gradient(loss, weights))
            watch.step()


def outputs_of_a_module(watch):
    weights, batches = setting()
    OUTPUTS.clear()
    with watch(None):
        for at, x in enumerate(batches):
            with tf.GradientTape() as tape:
                out = forward(weights, x)
                loss = tf.reduce_mean(out**2)
            OUTPUTS[at] = out  # here
            move(weights, tape.gradient(loss, weights))
            watch.step()


def gradients_by_name(watch):
    weights, batches = setting()
    seen = {}
    with watch(None):
        for x in batches:
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(forward(weights, x) ** 2)
            gradients = tape.gradient(loss, weights)
            seen.setdefault("b", []).append(gradients[1])  # here
            move(weights, gradients)
            watch.step()


def a_closure(watch):
    def recorder():
        kept = []

        def record(value):
            kept.append(value)  # here

        return record

    weights, batches = setting()
    record = recorder()
    with watch(None):
        for x in batches:
            with tf.GradientTape() as tape:
                out = forward(weights, x)
                loss = tf.reduce_mean(out**2)
            record(out)
            move(weights, tape.gradient(loss, weights))
            watch.step()


def a_queue(watch):
    weights, batches = setting()
    BUFFER.clear()
    with watch(None):
        for x in batches:
            BUFFER.append((x, forward(weights, x)))  # here
            watch.step()


def a_cache(watch):
    weights, batches = setting()

    @functools.lru_cache(None)
    def predicted(at):
        return forward(weights, batches[at])

    with watch(None):
        for at in range(N):
            predicted(at)
            watch.step()


def a_traceback(watch):
    def failing(weights, x):
        out = forward(weights, x)
        raise ValueError(float(tf.reduce_sum(out)))

    weights, batches = setting()
    ERRORS.clear()
    with watch(None):
        for x in batches:
            try:
                failing(weights, x)
            except ValueError as error:
                ERRORS.append(error)  # here
            watch.step()


LEAKS = {
    tapes_in_a_list: ("graphs", "tapes[…]"),
    tapes_of_a_module: ("graphs", "TAPES[…][…]"),
    tapes_by_step: ("graphs", "kept[…]"),
    one_tape_around_all: ("graphs", "tape"),
    one_tape_that_goes_on: ("graphs", "tape"),
    an_attribute: ("graphs", "trainer.tapes[…]"),
    a_tape_that_is_never_asked: ("graphs", "measured[…][…]"),
    a_closure_of_a_tape: ("graphs", "later[…][…]"),
    outputs_in_a_list: ("arrays", "outputs[…]"),
    outputs_of_a_module: ("arrays", "OUTPUTS[…]"),
    gradients_by_name: ("arrays", "seen['b'][…]"),
    a_closure: ("arrays", "record's kept[…]"),
    a_queue: ("arrays", "BUFFER[…][…]"),
    a_cache: ("arrays", "predicted[…]"),
    a_traceback: ("arrays", "ERRORS[…].__traceback__ → out of failing()"),
}
"""By program: the kind of what is held, and the way to it."""


# healthy ones


def plain(watch):
    weights, batches = setting()
    with watch(None):
        for x in batches:
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(forward(weights, x) ** 2)
            move(weights, tape.gradient(loss, weights))
            watch.step()


def single_numbers(watch):
    weights, batches = setting()
    losses = []
    with watch(None):
        for x in batches:
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(forward(weights, x) ** 2)
            losses.append(loss)  # one number: no tape is held by it
            move(weights, tape.gradient(loss, weights))
            watch.step()
    return losses


def floats(watch):
    weights, batches = setting()
    losses = []
    with watch(None):
        for x in batches:
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(forward(weights, x) ** 2)
            losses.append(float(loss))
            move(weights, tape.gradient(loss, weights))
            watch.step()
    return losses


def a_persistent_tape_of_each_step(watch):
    weights, batches = setting()
    with watch(None):
        for x in batches:
            with tf.GradientTape(persistent=True) as tape:
                loss = tf.reduce_mean(forward(weights, x) ** 2)
            move(weights[:1], tape.gradient(loss, weights[:1]))
            move(weights[1:], tape.gradient(loss, weights[1:]))
            watch.step()


def a_tape_that_is_deleted(watch):
    weights, batches = setting()
    with watch(None):
        for x in batches:
            with tf.GradientTape(persistent=True) as tape:
                loss = tf.reduce_mean(forward(weights, x) ** 2)
            gradients = tape.gradient(loss, weights)
            del tape
            move(weights, gradients)
            watch.step()


def tapes_that_were_asked(watch):
    weights, batches = setting()
    tapes = []
    with watch(None):
        for x in batches:
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(forward(weights, x) ** 2)
            tapes.append(tape)  # which has let go of all when its gradient was taken
            move(weights, tape.gradient(loss, weights))
            watch.step()


def two_tapes(watch):
    weights, batches = setting()
    with watch(None):
        for x in batches:
            with tf.GradientTape() as first, tf.GradientTape() as second:
                out = forward(weights, x)
                one, other = tf.reduce_mean(out**2), tf.reduce_mean(out)
            move(weights, first.gradient(one, weights))
            move(weights, second.gradient(other, weights))
            watch.step()


def penalty_on_gradients(watch):
    weights, batches = setting()
    with watch(None):
        for x in batches:
            with tf.GradientTape() as outer:
                with tf.GradientTape() as inner:
                    inner.watch(x)
                    out = tf.reduce_sum(forward(weights, x))
                loss = tf.reduce_mean(inner.gradient(out, x) ** 2)
            move(weights, outer.gradient(loss, weights))
            watch.step()


def accumulated_gradients(watch):
    weights, batches = setting()
    total = [tf.zeros_like(own) for own in weights]
    with watch(None):
        for at, x in enumerate(batches):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(forward(weights, x) ** 2)
            total = [one + new for one, new in zip(total, tape.gradient(loss, weights), strict=True)]
            if at % 2:
                move(weights, total)
                total = [tf.zeros_like(own) for own in weights]
            watch.step()


def compiled(watch):
    weights, batches = setting()

    @tf.function
    def train(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(forward(weights, x) ** 2)
        move(weights, tape.gradient(loss, weights))
        return loss

    with watch(None):
        for x in batches:
            train(x)
            watch.step()


def compiled_forward(watch):
    weights, batches = setting()
    run = tf.function(lambda x: forward(weights, x))
    with watch(None):
        for x in batches:
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(run(x) ** 2)
            move(weights, tape.gradient(loss, weights))
            watch.step()


def moving_average(watch):
    weights, batches = setting()
    average = [tf.identity(own) for own in weights]
    with watch(None):
        for x in batches:
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(forward(weights, x) ** 2)
            move(weights, tape.gradient(loss, weights))
            average = [0.9 * one + 0.1 * own for one, own in zip(average, weights, strict=True)]
            watch.step()
    return average


def last_output(watch):
    weights, batches = setting()
    last = []
    with watch(None):
        for x in batches:
            with tf.GradientTape() as tape:
                out = forward(weights, x)
                loss = tf.reduce_mean(out**2)
            last = [out]
            move(weights, tape.gradient(loss, weights))
            watch.step()
    return last


def copies_on_the_host(watch):
    weights, batches = setting()
    outputs = []
    with watch(None):
        for x in batches:
            outputs.append(numpy.array(forward(weights, x)))
            watch.step()
    return outputs


def keras_model(watch):
    keras.utils.set_random_seed(0)
    _, batches = setting()
    model = keras.Sequential([keras.layers.Dense(8, activation="relu"), keras.layers.Dense(2)])
    model.build((None, 4))
    optimizer = keras.optimizers.Adam()
    with watch(model):
        for x in batches:
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(model(x) ** 2)
            optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)


def caught_errors(watch):
    weights, batches = setting()
    texts = []
    with watch(None):
        for x in batches:
            try:
                raise ValueError(float(tf.reduce_sum(forward(weights, x))))
            except ValueError as error:
                texts.append(str(error))
            watch.step()


HEALTHY = (
    plain,
    single_numbers,
    floats,
    a_persistent_tape_of_each_step,
    a_tape_that_is_deleted,
    tapes_that_were_asked,
    two_tapes,
    penalty_on_gradients,
    accumulated_gradients,
    compiled,
    compiled_forward,
    moving_average,
    last_output,
    copies_on_the_host,
    keras_model,
    caught_errors,
)
