"""Keras: recurrent layers, cells of one's own, and layers around them."""

import keras
import tensorflow as tf

import backprobe as bp

FRAMEWORK, LIBRARIES = "TensorFlow", ("keras",)
SEQUENCES = tf.reshape(tf.range(12.0), (2, 3, 2)) / 6 - 0.8


# https://keras.io/guides/working_with_rnns/
def lstm():
    keras.utils.set_random_seed(0)
    layers = [keras.layers.LSTM(3, return_sequences=True, name="lstm"), keras.layers.GRU(2, name="gru")]
    return keras.Sequential([keras.Input((3, 2)), *layers, keras.layers.Dense(1, name="head")])


def bidirectional():
    keras.utils.set_random_seed(0)
    inputs = keras.Input((3, 2), name="inputs")
    both = keras.layers.Bidirectional(keras.layers.LSTM(2), name="both")(inputs)
    return keras.Model(inputs, keras.layers.Dense(1, name="head")(both))


# (a cell of one's own)
class Minimal(keras.layers.Layer):
    def __init__(self, units, **kwargs):
        super().__init__(**kwargs)
        self.units = self.state_size = units

    def build(self, shape):
        self.kernel = self.add_weight(shape=(shape[-1], self.units), name="kernel", initializer="glorot_uniform")
        self.recurrent = self.add_weight(shape=(self.units, self.units), name="recurrent", initializer="orthogonal")

    def call(self, inputs, states):
        mixed = keras.ops.matmul(inputs, self.kernel) + keras.ops.matmul(states[0], self.recurrent)
        output = keras.ops.tanh(mixed)
        return output, [output]


def of_cell():
    keras.utils.set_random_seed(0)
    return keras.Sequential([keras.Input((3, 2)), keras.layers.RNN(Minimal(2, name="cell"), name="rnn")])


# (stateful, masked, time distributed)
def masked():
    keras.utils.set_random_seed(0)
    return keras.Sequential(
        [
            keras.Input((4,), dtype="int32"),
            keras.layers.Embedding(6, 3, mask_zero=True, name="words"),
            keras.layers.SimpleRNN(2, return_sequences=True, name="rnn"),
            keras.layers.TimeDistributed(keras.layers.Dense(1, name="each"), name="read"),
        ]
    )


# planted
class Stopped(keras.layers.Layer):
    def call(self, x):
        fixed = keras.ops.stop_gradient(x)  # <- cut
        return fixed


class Logarithm(keras.layers.Layer):
    def call(self, x):
        logs = keras.ops.log(x - 100.0)  # <- nan
        return logs


def planted(layer):
    keras.utils.set_random_seed(0)
    layers = [keras.layers.SimpleRNN(3, name="rnn"), layer, keras.layers.Dense(1, name="head")]
    return keras.Sequential([keras.Input((3, 2)), *layers])


# asked
def asked(ask, model, x, *names):
    rec = bp.probe(model, of=lambda y: tf.reduce_sum(y**2))(x)
    with tf.GradientTape() as tape:
        out = model(x)
        loss = tf.reduce_sum(out**2)
    right = tape.gradient(loss, model.trainable_variables)
    weights = {name: entry for name, entry in rec.items() if name.rpartition(".")[2] in WEIGHTS}
    ask.that(len(weights) == len(right), f"{len(weights)} weights, not {len(right)}: {list(rec)}")
    for variable, gradient in zip(model.trainable_variables, right, strict=True):
        own = next(name for name in weights if _same(weights[name].value, variable))
        del weights[own]  # of two that are equal, each is in the order of the other
        ask.gradients(rec, {own: tf.convert_to_tensor(gradient)})
    ask.names(rec, *names)
    ask.clean(rec)
    return rec


def _same(one, other):
    return one.shape == other.shape and bool(tf.reduce_all(one == other))


WEIGHTS = ("kernel", "bias", "recurrent_kernel", "recurrent", "embeddings")


def trained(make):
    def training(around):
        model, optimizer = make(), keras.optimizers.Adam(0.01)
        with around(model, optimizer=optimizer) as seen:
            for _ in range(20):
                with tf.GradientTape() as tape:
                    loss = tf.reduce_mean((model(SEQUENCES) - 1.0) ** 2)
                gradients = tape.gradient(loss, model.trainable_variables)
                optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return seen, loss, [one.numpy() for one in model.trainable_variables]

    return training


def test_lstm(ask):
    rec = asked(ask, lstm(), SEQUENCES, "lstm", "gru", "head", "head.kernel")
    ask.gradients(rec, {"head": 2 * rec["head"].value})
    last = ask.watched(trained(lstm))
    ask.rows(last, "lstm", "gru", "head.kernel")
    ask.works("LSTM and GRU: layers and weights, and `bp.watch` over 20 steps")


def test_bidirectional(ask):
    asked(ask, bidirectional(), SEQUENCES, "both", "head")
    ask.works("`Bidirectional`")


def test_cell(ask):
    rec = asked(ask, of_cell(), SEQUENCES, "rnn")
    said = [*map(str, rec.notes), *rec]
    ask.that(any("cell" in one for one in said), f"no word of the cell: {said}")
    ask.works("a cell of one's own in `keras.layers.RNN`")


def test_masked(ask):
    rec = asked(ask, masked(), tf.constant([[1, 2, 0, 0], [3, 4, 5, 0]]), "words", "rnn", "read")
    ask.gradients(rec, {"read": 2 * rec["read"].value})
    ask.works("masks, `TimeDistributed`")


def test_planted(ask):
    of = {"of": lambda y: tf.reduce_sum(y)}
    ask.cut(bp.probe(planted(Stopped(name="stop")), ["**", "stop:*"], **of)(SEQUENCES), Stopped.call)
    ask.nan(bp.probe(planted(Logarithm(name="log")), ["**", "log:*"], nonfinite=True, **of)(SEQUENCES), Logarithm.call)
