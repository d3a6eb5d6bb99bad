"""Decoders as KerasHub writes them: embeddings that are read backwards, rotary positions, caches, and generation."""

import keras
import tensorflow as tf
from keras import layers, ops

import backprobe as bp

FRAMEWORK, LIBRARIES = "TensorFlow", ("keras",)
TOKENS = tf.constant([[1, 4, 2, 3], [5, 0, 1, 2]])
WORDS, WIDTH, HEADS = 6, 8, 2


# https://github.com/keras-team/keras-hub/blob/master/keras_hub/src/layers/modeling/transformer_decoder.py
class Attention(layers.Layer):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.query = layers.EinsumDense("btd,dhk->bthk", (None, HEADS, WIDTH // HEADS), name="query")
        self.key = layers.EinsumDense("btd,dhk->bthk", (None, HEADS, WIDTH // HEADS), name="key")
        self.value = layers.EinsumDense("btd,dhk->bthk", (None, HEADS, WIDTH // HEADS), name="value")
        self.out = layers.EinsumDense("bthk,hkd->btd", (None, WIDTH), name="out")

    def call(self, x):
        q, k, v = self.query(x), self.key(x), self.value(x)
        scores = ops.einsum("bqhk,bshk->bhqs", q, k) / 2.0
        mask = ops.tril(ops.ones((scores.shape[-1], scores.shape[-1])))
        weights = ops.softmax(ops.where(mask > 0, scores, -1e9))
        mixed = ops.einsum("bhqs,bshk->bqhk", weights, v)
        return self.out(mixed)


class Block(layers.Layer):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.attention = Attention(name="attention")
        self.norm1, self.norm2 = layers.LayerNormalization(name="norm1"), layers.LayerNormalization(name="norm2")
        self.up, self.down = layers.Dense(16, activation="gelu", name="up"), layers.Dense(WIDTH, name="down")

    def call(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.down(self.up(self.norm2(x)))


# https://github.com/keras-team/keras-hub/blob/master/keras_hub/src/layers/modeling/reversible_embedding.py
class Decoder(keras.Model):
    def __init__(self):
        super().__init__()
        self.embed = layers.Embedding(WORDS, WIDTH, name="embed")
        self.blocks = [Block(name=f"block_{at}") for at in range(2)]
        self.norm = layers.LayerNormalization(name="norm")

    def call(self, tokens):
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x)
        hidden = self.norm(x)
        logits = ops.matmul(hidden, ops.transpose(self.embed.embeddings))
        return logits


def decoder():
    keras.utils.set_random_seed(0)
    model = Decoder()
    model(TOKENS)
    return model


def loss_of(logits):
    return tf.reduce_mean(keras.losses.sparse_categorical_crossentropy(TOKENS[:, 1:], logits[:, :-1], from_logits=True))


def trained(around):
    model, optimizer = decoder(), keras.optimizers.AdamW(0.01)
    with around(model, optimizer=optimizer) as seen:
        for _ in range(20):
            with tf.GradientTape() as tape:
                loss = loss_of(model(TOKENS))
            gradients = tape.gradient(loss, model.trainable_variables)
            optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
    return seen, loss, [one.numpy() for one in model.trainable_variables]


# https://keras.io/keras_hub/api/models/gemma/ (a score of a sequence, with respect to its embeddings)
def score(model, embeddings):
    x = embeddings
    for block in model.blocks:
        x = block(x)
    hidden = model.norm(x)
    logits = tf.matmul(hidden, model.embed.embeddings, transpose_b=True)
    picked = logits[:, -1, 3]
    return tf.reduce_sum(picked)


def fitted(around):
    model = decoder()
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer=keras.optimizers.SGD(0.01), loss=loss, run_eagerly=True)
    with around(model) as seen:
        model.fit(TOKENS, TOKENS, epochs=2, verbose=0)
    return seen, [one.numpy() for one in model.trainable_variables]


# planted
class CutBlock(Block):
    def call(self, x):
        attended = ops.stop_gradient(self.attention(self.norm1(x)))  # <- cut
        x = x + attended
        return x + self.down(self.up(self.norm2(x)))


class NanBlock(Block):
    def call(self, x):
        scale = ops.sqrt(ops.mean(x, -1, keepdims=True) - 100.0)  # <- nan
        return self.down(self.up(x / scale))


def planted(block):
    keras.utils.set_random_seed(0)
    model = Decoder()
    model.blocks = [block(name="block_0")]
    model(TOKENS)
    return model


# asked
def test_decoder(ask):
    model = decoder()
    rec = bp.probe(model, ["**", "**:*"], of=loss_of)(TOKENS)
    with tf.GradientTape() as tape:
        logits = model(TOKENS)
        loss = loss_of(logits)
    by_logits = tape.gradient
    right = tape.gradient(loss, model.trainable_variables)
    del by_logits
    names = ["embed.embeddings"]
    for at in range(2):
        names += [
            f"blocks.{at}.attention.{part}.{kind}" for part in ("query", "key", "value", "out") for kind in ("kernel",)
        ]
    found = {one.path: gradient for one, gradient in zip(model.trainable_variables, right, strict=True)}
    for name in names:
        path = next(path for path in found if path.replace("block_", "blocks.").replace("/", ".").endswith(name))
        ask.gradients(rec, {name: tf.convert_to_tensor(found[path])}, tolerance=1e-4)
    hot = tf.one_hot(TOKENS[:, 1:], WORDS)
    back = tf.pad((tf.nn.softmax(logits[:, :-1]) - hot) / 6, ((0, 0), (0, 1), (0, 0)))
    ask.gradients(rec, {":logits": back}, tolerance=1e-4)
    ask.names(rec, "embed", "blocks.1.attention:scores", "blocks.1.attention:weights", "blocks.0.up", "norm")
    ask.statuses(rec, {"blocks.0.attention:scores": "ok"})
    ask.clean(rec)
    ask.works("a decoder with tied embeddings: scores and weights of its heads, and every weight by path")


def test_embeddings(ask):
    model = decoder()
    embeddings = model.embed(TOKENS)
    rec = ask.function(lambda embeddings: score(model, embeddings), lambda: (embeddings,))
    with tf.GradientTape() as tape:
        tape.watch(embeddings)
        total = score(model, embeddings)
    ask.gradients(rec, {"embeddings#0" if "embeddings#0" in rec else ":embeddings": tape.gradient(total, embeddings)})
    ask.clean(rec)


def test_training(ask):
    last = ask.watched(trained)
    ask.rows(last, "embed.embeddings", "blocks.0.attention", "blocks.1.down.kernel")
    rec = ask.block(fitted)
    ask.names(rec, "blocks.0.attention.query.kernel", "embed#1")
    ask.clean(rec)
    ask.works("its training step under `bp.watch`, and `fit` with `run_eagerly=True` in a block")


def test_planted(ask):
    ask.cut(bp.probe(planted(CutBlock), ["**", "**:*"], of=loss_of)(TOKENS), CutBlock.call)
    ask.nan(bp.probe(planted(NanBlock), ["**", "**:*"], of=loss_of, nonfinite=True)(TOKENS), NanBlock.call)
