"""Ports to Keras, on TensorFlow."""

import keras
import numpy as np
import tensorflow as tf

import backprobe as bp
from ports.port import TOKENS, Port, images, in_torch, weights
from ports.torch_models import (
    HEADS,
    WIDTH,
    WORDS,
    Attention,
    Cnn,
    Flattened,
    Gru,
    Lstm,
    Mlp,
    Residual,
    Stacked,
    Torch,
    Transformer,
    Upsampling,
    seeded,
)

layers = keras.layers


def mean_square(y):
    return tf.reduce_mean(y * y)


def numbers(model):
    return {name: value.__array__() for name, value in weights(model).items()}


def linear(given, name):
    return [given[f"{name}.weight"].T, given[f"{name}.bias"]]


def conv(given, name):
    bias = [given[f"{name}.bias"]] if f"{name}.bias" in given else []
    return [given[f"{name}.weight"].transpose(2, 3, 1, 0), *bias]


def norm(given, name):
    running = [given[f"{name}.{one}"] for one in ("running_mean", "running_var") if f"{name}.{one}" in given]
    return [given[f"{name}.weight"], given[f"{name}.bias"], *running]


def recorded(port, array):
    return bp.probe(port, of=mean_square)(tf.constant(array))


def mlp(is_faulty):
    keras.utils.clear_session()
    model, x = seeded(Mlp), images(5, 4)
    given = numbers(model)
    port = keras.Sequential([layers.Dense(6, activation="relu"), layers.Dense(6, activation="relu"), layers.Dense(3)])
    port.build((None, 4))
    for at, layer in enumerate(port.layers, 1):
        layer.set_weights(linear(given, f"linear{at}"))
    if is_faulty:
        port.layers[1].set_weights([given["linear2.weight"], given["linear2.bias"]])
    return in_torch(model, x), recorded(port, x)


def cnn(is_faulty):
    keras.utils.clear_session()
    model, x = seeded(Cnn), images(2, 2, 4, 4)
    given = numbers(model)
    port = keras.Sequential(
        [
            layers.Conv2D(4, 3, padding="same", activation="relu"),
            layers.AveragePooling2D(2),
            layers.Conv2D(4, 3, padding="same", activation="relu"),
            layers.GlobalAveragePooling2D(),
            layers.Dense(3),
        ]
    )
    port.build((None, 4, 4, 2))
    for at, name in ((0, "conv1"), (2, "conv2"), (4, "fc")):
        port.layers[at].set_weights((linear if name == "fc" else conv)(given, name))
    if is_faulty:
        port.layers[2].set_weights([given["conv2.weight"].transpose(3, 2, 1, 0), given["conv2.bias"]])
    return in_torch(model, x), recorded(port, x.transpose(0, 2, 3, 1))


def residual(is_faulty):
    keras.utils.clear_session()
    model, x = seeded(Residual), images(2, 3, 4, 4)
    given = numbers(model)
    image = keras.Input((4, 4, 3))
    y = layers.Conv2D(3, 3, padding="same", use_bias=False, name="conv1")(image)
    y = layers.BatchNormalization(epsilon=1e-3 if is_faulty else 1e-5, name="bn1")(y)
    y = layers.Conv2D(3, 3, padding="same", use_bias=False, name="conv2")(layers.ReLU()(y))
    y = layers.BatchNormalization(epsilon=1e-5, name="bn2")(y)
    y = layers.GlobalAveragePooling2D()(layers.ReLU()(layers.Add()([image, y])))
    port = keras.Model(image, layers.Dense(2, name="fc")(y))
    for name in ("conv1", "conv2"):
        port.get_layer(name).set_weights(conv(given, name))
    for name in ("bn1", "bn2"):
        port.get_layer(name).set_weights(norm(given, name))
    port.get_layer("fc").set_weights(linear(given, "fc"))
    return in_torch(model, x), recorded(port, x.transpose(0, 2, 3, 1))


def lstm(is_faulty):
    keras.utils.clear_session()
    model = seeded(Lstm)
    given = numbers(model)
    words = keras.Input((None,), dtype="int32")
    y = layers.LSTM(5, name="lstm")(layers.Embedding(WORDS, 4, name="embed")(words))
    port = keras.Model(words, layers.Dense(3, name="head")(y))
    port.get_layer("embed").set_weights([given["embed.weight"]])
    order = [*range(5, 10), *range(5), *range(10, 20)] if is_faulty else [*range(20)]
    port.get_layer("lstm").set_weights(
        [
            given["lstm.weight_ih_l0"].T[:, order],
            given["lstm.weight_hh_l0"].T[:, order],
            (given["lstm.bias_ih_l0"] + given["lstm.bias_hh_l0"])[order],
        ]
    )
    port.get_layer("head").set_weights(linear(given, "head"))
    return in_torch(model, TOKENS), recorded(port, TOKENS)


def recurrent(given, name, end="_l0"):
    """The weights of an LSTM, the sum of the two biases last."""
    own, state, first, second = (
        given[f"{name}.{one}{end}"] for one in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    )
    return [own.T, state.T, first + second]


def in_words(given, layers_of, end):
    """A model of tokens with these layers between its embedding and its head."""
    words = keras.Input((None,), dtype="int32")
    y = layers.Embedding(WORDS, 4, name="embed")(words)
    for layer in layers_of:
        y = layer(y)
    port = keras.Model(words, layers.Dense(3, name="head")(end(y)))
    port.get_layer("embed").set_weights([given["embed.weight"]])
    port.get_layer("head").set_weights(linear(given, "head"))
    return port


def gru(is_faulty):
    keras.utils.clear_session()
    model = seeded(Gru)
    given = numbers(model)
    layer = layers.GRU(5, name="gru")
    port = in_words(given, [layer], lambda y: y)
    order = [*range(15)] if is_faulty else [*range(5, 10), *range(5), *range(10, 15)]
    own, state, *biases = (given[f"gru.{one}_l0"] for one in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))
    layer.set_weights([own.T[:, order], state.T[:, order], np.stack(biases)[:, order]])
    return in_torch(model, TOKENS), recorded(port, TOKENS)


class Summed(layers.Layer):
    def call(self, y):
        return tf.reduce_sum(y, 1)


def stacked(is_faulty):
    keras.utils.clear_session()
    model = seeded(Stacked)
    given = numbers(model)
    each = [layers.LSTM(5, return_sequences=True) for _ in range(2)]
    port = in_words(given, each, Summed())
    for at, layer in enumerate(each):
        layer.set_weights(recurrent(given, "lstm", f"_l{at}"))
    if is_faulty:
        own, state, bias = each[1].get_weights()
        each[1].set_weights([own, state.T.reshape(state.shape), bias])
    return in_torch(model, TOKENS), recorded(port, TOKENS)


def bidirectional(is_faulty):
    keras.utils.clear_session()
    model = seeded(Stacked, 1, True)
    given = numbers(model)
    layer = layers.Bidirectional(layers.LSTM(5, return_sequences=True))
    port = in_words(given, [layer], Summed())
    forward, backward = (recurrent(given, "lstm", end) for end in ("_l0", "_l0_reverse"))
    if is_faulty:
        backward[0] = forward[0]
    layer.set_weights([*forward, *backward])
    return in_torch(model, TOKENS), recorded(port, TOKENS)


def upsampling(is_faulty):
    keras.utils.clear_session()
    model, x = seeded(Upsampling), images(2, 3, 4, 4)
    given = numbers(model)
    image = keras.Input((4, 4, 3))
    y = layers.ReLU()(layers.DepthwiseConv2D(3, padding="same", name="depthwise")(image))
    y = layers.ReLU()(layers.Conv2D(4, 1, name="pointwise")(y))
    port = keras.Model(image, layers.Conv2DTranspose(2, 3, 3, name="up")(y))
    depth = given["depthwise.weight"].transpose(2, 3, 0, 1)
    port.get_layer("depthwise").set_weights([depth, given["depthwise.bias"]])
    port.get_layer("pointwise").set_weights(conv(given, "pointwise"))
    kernel = given["up.weight"].transpose(2, 3, 1, 0)
    port.get_layer("up").set_weights([kernel.swapaxes(0, 1) if is_faulty else kernel, given["up.bias"]])
    return in_torch(model, x), recorded(port, x.transpose(0, 2, 3, 1))


def flattened(is_faulty):
    keras.utils.clear_session()
    model, x = seeded(Flattened), images(2, 2, 4, 2)
    given = numbers(model)
    port = keras.Sequential(
        [
            layers.Conv2D(3, 3, padding="same"),
            layers.ReLU(),
            layers.Flatten(),
            layers.Dense(6),
            layers.ReLU(),
            layers.Dense(2),
        ]
    )
    port.build((None, 4, 2, 2))
    rows = given["hidden.weight"].reshape(6, 3, 4, 2)
    rows = rows if is_faulty else rows.transpose(0, 2, 3, 1)
    port.layers[0].set_weights(conv(given, "conv"))
    port.layers[3].set_weights([rows.reshape(6, -1).T, given["hidden.bias"]])
    port.layers[5].set_weights(linear(given, "fc"))
    return in_torch(model, x), recorded(port, x.transpose(0, 2, 3, 1))


def projections(given):
    """What the attention of Keras holds, from the one parameter that PyTorch has."""
    found = []
    for at in range(3):
        part = slice(at * WIDTH, (at + 1) * WIDTH)
        found += [
            given["attn.in_proj_weight"][part].T.reshape(WIDTH, HEADS, -1),
            given["attn.in_proj_bias"][part].reshape(HEADS, -1),
        ]
    return [*found, given["attn.out_proj.weight"].T.reshape(HEADS, -1, WIDTH), given["attn.out_proj.bias"]]


def attention(is_faulty):
    keras.utils.clear_session()
    model = seeded(Torch)
    given = numbers(model)
    words = keras.Input((None,), dtype="int32")
    x = layers.Embedding(WORDS, WIDTH, name="embed")(words)
    n = layers.LayerNormalization(epsilon=1e-5, name="ln_1")(x)
    x = layers.Add()([x, layers.MultiHeadAttention(HEADS, WIDTH // HEADS, name="attn")(n, n)])
    n = layers.LayerNormalization(epsilon=1e-3 if is_faulty else 1e-5, name="ln_2")(x)
    x = layers.Add()([x, layers.Dense(WIDTH, name="down")(layers.Dense(16, activation="relu", name="up")(n))])
    port = keras.Model(words, layers.Dense(WORDS, name="head")(x))
    port.get_layer("embed").set_weights([given["embed.weight"]])
    port.get_layer("attn").set_weights(projections(given))
    for name in ("ln_1", "ln_2"):
        port.get_layer(name).set_weights(norm(given, name))
    for name in ("up", "down", "head"):
        port.get_layer(name).set_weights(linear(given, name))
    return in_torch(model, TOKENS), recorded(port, TOKENS)


class Separate(layers.Layer):
    """Attention with a Dense for each projection."""

    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.o = (layers.Dense(WIDTH) for _ in range(4))

    def heads(self, x):
        return tf.transpose(tf.reshape(x, (*x.shape[:-1], HEADS, WIDTH // HEADS)), (0, 2, 1, 3))

    def call(self, x):
        q, k, v = (self.heads(one(x)) for one in (self.q, self.k, self.v))
        scores = tf.matmul(q, k, transpose_b=True) / (WIDTH // HEADS) ** 0.5
        return self.o(tf.reshape(tf.transpose(tf.nn.softmax(scores) @ v, (0, 2, 1, 3)), x.shape))


class KerasTransformer(keras.Model):
    def __init__(self):
        super().__init__()
        self.embed = layers.Embedding(WORDS, WIDTH)
        self.ln_1, self.ln_2 = (layers.LayerNormalization(epsilon=1e-5) for _ in range(2))
        self.attn = Separate()
        self.up, self.down, self.head = layers.Dense(16, activation="relu"), layers.Dense(WIDTH), layers.Dense(WORDS)

    def call(self, tokens):
        x = self.embed(tokens)
        x = x + self.attn(self.ln_1(x))
        x = x + self.down(self.up(self.ln_2(x)))
        return self.head(x)


def separate(is_faulty):
    keras.utils.clear_session()
    model = seeded(Transformer, lambda: Attention("q", "k", "v", "o"))
    given = numbers(model)
    port = KerasTransformer()
    port(tf.constant(TOKENS))
    port.embed.set_weights([given["embed.weight"]])
    for name in ("ln_1", "ln_2"):
        getattr(port, name).set_weights(norm(given, name))
    for name in ("up", "down", "head"):
        getattr(port, name).set_weights(linear(given, name))
    for own, name in zip("qkvo", "kqvo" if is_faulty else "qkvo", strict=True):
        getattr(port.attn, own).set_weights(linear(given, f"attn.{name}"))
    return in_torch(model, TOKENS), recorded(port, TOKENS)


SEQUENTIAL = "https://keras.io/guides/sequential_model/"
CONVNET = "https://keras.io/examples/vision/mnist_convnet/"
IMDB = "https://keras.io/examples/nlp/bidirectional_lstm_imdb/"
TEXT = "https://keras.io/examples/nlp/text_classification_with_transformer/"

KERAS = (
    Port("keras-mlp", mlp, "a weight that is not transposed", ("linear2.weight",), is_whole=False, address=SEQUENTIAL),
    Port("keras-cnn", cnn, "the axes of a window exchanged", ("conv2.weight",), is_whole=False, address=CONVNET),
    Port("keras-batch-norm", residual, "another epsilon", ("bn1",), is_whole=False),
    Port("keras-lstm", lstm, "two gates exchanged", ("lstm.weight_ih_l0",), is_whole=False, address=IMDB),
    Port("keras-gru", gru, "two gates exchanged", ("gru.weight_ih_l0",), is_whole=False),
    Port("keras-stacked", stacked, "a weight that is transposed", ("lstm.weight_hh_l1",), is_whole=False),
    Port(
        "keras-bidirectional",
        bidirectional,
        "one direction taken for the other",
        ("lstm.weight_ih_l0_reverse",),
        is_whole=False,
        address=IMDB,
    ),
    Port("keras-upsampling", upsampling, "the axes of a window exchanged", ("up.weight",), is_whole=False),
    Port("keras-flatten", flattened, "rows in the order of PyTorch", ("hidden.weight", "hidden"), is_whole=False),
    Port("keras-attention", attention, "another epsilon", ("ln_2",), is_whole=False, address=TEXT),
    Port("keras-separate", separate, "q and k exchanged", ("attn.q.weight",), is_whole=False),
)
