"""The edges of drawn TensorFlow and JAX programs: one for each value that an expression takes, and no other."""

import equinox as eqx
import jax
import jax.numpy as jnp
import keras
import numpy
import tensorflow as tf
from drawn_edges import edges, pairs
from flax import nnx

import backprobe as bp


def normal(*shape):
    return numpy.random.RandomState(0).randn(*shape).astype("float32")


def square(y):
    return (y**2).mean() if not tf.is_tensor(y) else tf.reduce_mean(y**2)


def test_a_loop_in_python_in_jax():
    def f(x, w):
        i = 0
        h = x
        while i < 2:
            h = jnp.tanh(h * w)
            i = i + 1
        k = len(x)
        out = h * k
        kept = jax.lax.stop_gradient(h)
        return (out * kept).sum()

    solid, dashed = edges(bp.probe(f)(jnp.ones(3), jnp.ones(3)))
    assert solid == pairs("x,w>h#1 h#1,w>h#2 h#2>out out>return")
    assert dashed == pairs("i#0>i#1 x>k k>out h#2>kept kept>return")


def test_an_index_in_jax():
    def f(w, xs):
        each = (xs @ w).sum(1)
        at = jnp.argmax(each)
        best = each[at]
        return best + each.mean()

    solid, dashed = edges(bp.probe(f)(jnp.asarray(normal(3, 3)), jnp.asarray(normal(4, 3))))
    assert solid == pairs("w,xs>each each>best best,each>return")
    assert dashed == pairs("each>at at>best")


def test_a_call_under_vmap():
    def one(w, x):
        h = w @ x
        a = jnp.tanh(h)
        return a.sum()

    def f(w, xs):
        each = jax.vmap(one, in_axes=(None, 0))(w, xs)
        return each.mean()

    solid, dashed = edges(bp.probe(f)(jnp.asarray(normal(3, 3)), jnp.asarray(normal(4, 3))))
    assert solid == pairs("w>w xs>x w,x>h h>a a>each each>return") and not dashed


def test_a_module_of_equinox_that_is_called_twice():
    class Shared(eqx.Module):
        a: eqx.nn.Linear
        b: eqx.nn.Linear

        def __call__(self, x):
            h = jnp.tanh(self.a(x))
            g = self.a(h)
            return self.b(g + h)

    key = jax.random.key(0)
    net = Shared(eqx.nn.Linear(4, 4, key=key), eqx.nn.Linear(4, 1, key=key))
    assert edges(bp.probe(net, of=square)(jnp.ones(4))) == (pairs("a#0>a#1 a#0,a#1>b b>of()"), set())


def test_a_module_of_nnx_with_a_residual():
    class Block(nnx.Module):
        def __init__(self):
            self.first, self.second = nnx.Linear(4, 4, rngs=nnx.Rngs(0)), nnx.Linear(4, 4, rngs=nnx.Rngs(1))

        def __call__(self, x):
            h = self.first(x)
            return h + self.second(jax.nn.relu(h))

    solid, dashed = edges(bp.probe(Block(), of=square)(jnp.ones((3, 4))))
    assert solid == pairs("first>second first,second>return return>of()") and not dashed


def test_a_functional_model_of_keras():
    layers, given = keras.layers, keras.Input((4,))
    left, right = layers.Dense(4, activation="relu", name="left")(given), layers.Dense(4, name="right")(given)
    both = layers.Concatenate(name="both")([layers.Add(name="add")([left, right]), given])
    model = keras.Model(given, layers.Dense(1, name="out")(both))
    solid, dashed = edges(bp.probe(model, of=square)(normal(3, 4)))
    assert solid == pairs("left,right>add add>both both>out out>of()") and not dashed


def test_layers_of_keras_that_are_shared_within_a_model():
    parts = [keras.layers.Dense(4, name="a"), keras.layers.Dense(4, name="b")]
    inner = keras.Sequential([keras.Input((4,)), *parts])
    first, second = keras.Input((4,)), keras.Input((4,))
    model = keras.Model([first, second], keras.layers.Dot(1, name="dot")([inner(first), inner(second)]))
    solid, dashed = edges(bp.probe(model, of=square)([normal(3, 4), normal(3, 4)]))
    assert solid == pairs("a#0>b#0 a#1>b#1 b#0,b#1>dot dot>of()") and not dashed


def test_a_graph_with_an_index_and_a_loop():
    w = tf.Variable(normal(3, 3))

    @tf.function
    def f(x, b):
        h = x @ w
        a = tf.tanh(h + b)
        i = tf.argmax(a, 1)
        g = tf.gather(a, i, batch_dims=1)
        return tf.reduce_sum(g)

    solid, dashed = edges(bp.probe(f)(tf.constant(normal(2, 3)), tf.constant(normal(3))))
    assert solid == pairs("x>h h,b>a a>g g>return") and dashed == pairs("a>i i>g")


def test_an_integer_variable_is_not_computed_from_what_is_differentiated():
    count, v = tf.Variable(0), tf.Variable([2.0, 3.0])

    def f(x):
        h = x * v
        count.assign_add(1)
        t = tf.cast(count, tf.float32)
        n = tf.size(x)
        z = h * t / tf.cast(n, tf.float32)
        kept = tf.cast(tf.cast(h, tf.int32), tf.float32)
        return tf.reduce_sum(z) + tf.reduce_sum(kept)

    rec = bp.probe(f)(tf.constant([1.0, 2.0]))
    assert (str(rec["t"].status), str(rec["kept"].status)) == ("frozen", "detached")
    solid, dashed = edges(rec)
    assert solid == pairs("x>h h>z z>return") and dashed == pairs("t,n>z x>n h>kept kept>return")


def test_a_gradient_that_a_tape_has_taken_reads_its_loss():
    v = tf.Variable([2.0, 3.0])
    with bp.probe() as rec:
        with tf.GradientTape() as tape:
            e = v**2 - 1.0
            loss = tf.reduce_mean(e**2)
        slope = tape.gradient(loss, v)
    assert ("loss", "slope") in edges(rec)[1], slope


def test_what_is_of_a_sum_of_outputs_is_not_written_as_of_one():
    w = tf.Variable([1.0, 2.0])
    with bp.probe() as rec:
        with tf.GradientTape() as tape:
            squares, sizes = tf.reduce_sum(w**2), tf.reduce_sum(tf.abs(w))
        gradient = tape.gradient([squares, sizes], w)
    assert rec["w"].grad.numpy().tolist() == gradient.numpy().tolist() == [3, 5]
    drawn = bp.draw(rec).svg
    assert "gradient = [3, 5]" in drawn and "∂squares" not in drawn and "∂sizes" not in drawn
    assert "∂return/∂x = 4" in bp.draw(bp.probe(lambda x: x * x)(tf.constant(2.0))).svg
