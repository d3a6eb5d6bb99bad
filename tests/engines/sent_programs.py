"""Programs of JAX and TensorFlow that are sent to workers: functions, and models of Keras, Equinox and Flax NNX."""

import equinox
import jax
import jax.numpy as jnp
import keras
import tensorflow as tf
from flax import nnx


def in_jax(x, w):
    u = x * w
    v = jnp.tanh(u) + u
    return (v * w).sum()


def risky_in_jax(x, w):
    p = jax.nn.sigmoid(x @ w)
    q = jnp.sqrt(jnp.abs(w) + 0.1)
    return -jnp.log(1 - p).mean() + jnp.log(q).sum()


def in_tensorflow(x, w):
    u = x * w
    v = tf.tanh(u) + u
    return tf.reduce_sum(v * w)


def risky_in_tensorflow(x, w):
    p = tf.sigmoid(tf.linalg.matvec(x, w))
    q = tf.sqrt(tf.abs(w) + 0.1)
    return -tf.reduce_mean(tf.math.log(1 - p)) + tf.reduce_sum(tf.math.log(q))


class Equinox(equinox.Module):
    first: equinox.nn.Linear
    second: equinox.nn.Linear

    def __init__(self):
        one, two = jax.random.split(jax.random.key(0))
        self.first, self.second = equinox.nn.Linear(4, 6, key=one), equinox.nn.Linear(6, 2, key=two)

    def __call__(self, x):
        h = jnp.tanh(jax.vmap(self.first)(x))
        return jax.vmap(self.second)(h).sum()


class Nnx(nnx.Module):
    def __init__(self):
        rngs = nnx.Rngs(0)
        self.first, self.second = nnx.Linear(4, 6, rngs=rngs), nnx.Linear(6, 2, rngs=rngs)

    def __call__(self, x):
        h = jnp.tanh(self.first(x))
        return self.second(h).sum()


def in_keras():
    keras.utils.set_random_seed(0)
    given = keras.Input((4,))
    h = keras.layers.Dense(6, activation="tanh", name="first")(given)
    return keras.Model(given, keras.layers.Dense(1, name="second")(h))


class Subclassed(keras.Model):
    def __init__(self, **options):
        super().__init__(**options)
        self.first = keras.layers.Dense(6, activation="tanh")
        self.second = keras.layers.Dense(1)

    def call(self, x):
        h = self.first(x)
        return tf.reduce_sum(self.second(h))


class Unnamed(Subclassed):
    """It takes none of the options that Keras makes a model with."""

    def __init__(self):
        super().__init__()
