"""``replace=`` and ``replace_grad=`` in each framework: the same names, values and gradients."""

import equinox
import jax
import jax.numpy as jnp
import keras
import numpy as np
import pytest
import tensorflow as tf
import torch
from flax import linen, nnx

import backprobe as bp

X, W, ONES = np.array([1.0, -2.0], np.float32), np.array([3.0, 0.5], np.float32), np.ones(2, np.float32)


class Torch:
    name, array, sum = "torch", staticmethod(torch.tensor), staticmethod(torch.sum)
    zeros_like = staticmethod(torch.zeros_like)


class Tensorflow:
    name, array, sum = "tensorflow", staticmethod(tf.constant), staticmethod(tf.reduce_sum)
    zeros_like = staticmethod(tf.zeros_like)


class Jax:
    name, array, sum = "jax", staticmethod(jnp.asarray), staticmethod(jnp.sum)
    zeros_like = staticmethod(jnp.zeros_like)


each = pytest.mark.parametrize("own", [Torch, Tensorflow, Jax], ids=lambda own: own.name)


def program(own):
    def helper(a):
        inside = a * 2
        return inside

    def toy(x, w):
        u = x * w
        v = helper(u) + u
        pair = {"k": v, "n": 3}
        return own.sum(pair["k"] * pair["n"] + x)

    return toy


def probed(own, **options):
    return bp.probe(program(own), **options)(own.array(X), own.array(W))


def numbers(value):
    return None if value is None else np.asarray(value)


CASES = {
    "a value": ({"u": ONES}, {"u": (ONES, X * W, 9.0), "x": 1.0, "w": None}),
    "a function": ({"u": lambda u: u * u}, {"u": ((X * W) ** 2, X * W, 9.0), "x": 1 + 9 * 2 * X * W * W}),
    "in a called function": ({"/helper:inside": lambda a: a * 5}, {"x": 1 + 33 * W, "v": (11 * X * W,) * 2 + (3.0,)}),
    "a leaf": ({"pair.k": lambda k: k * 2}, {"x": 1 + 18 * W, "pair.k": (6 * X * W, 3 * X * W, 3.0)}),
    "a number": ({"pair.n": 4}, {"x": 1 + 12 * W}),
    "an argument": ({"x": ONES}, {"u": (W, W, 9.0), "w": 9.0 * ONES}),
}


@each
@pytest.mark.parametrize("case", CASES)
def test_a_value_is_replaced(own, case):
    replace, known = CASES[case]
    given = {name: own.array(what) if isinstance(what, np.ndarray) else what for name, what in replace.items()}
    rec = probed(own, replace=given)
    for name, facts in known.items():
        entry = rec[name]
        if isinstance(facts, tuple):
            value, original, facts = facts
            np.testing.assert_allclose(numbers(entry.value), value, 1e-6)
            np.testing.assert_allclose(numbers(entry.original), original, 1e-6)
        if facts is None:
            assert entry.status == bp.GradStatus.NOT_CONNECTED
        else:
            np.testing.assert_allclose(numbers(entry.grad), np.broadcast_to(facts, 2), 1e-6)
    assert [name for name in replace] == [entry.name for entry in rec.values() if entry.replaced]


@each
def test_a_value_of_another_recording_and_of_numpy(own):
    clean = bp.probe(program(own))(own.array(W), own.array(W))
    for what in (clean["u"], W * W, clean):
        rec = probed(own, replace={"u": what})
        np.testing.assert_allclose(numbers(rec["u"].value), W * W)
        np.testing.assert_allclose(numbers(rec["v"].value), 3 * W * W)


@each
def test_a_gradient_is_replaced(own):
    rec = probed(own, replace_grad={"v": lambda gradient: gradient * 10})
    assert rec["v"].replaced_grad
    np.testing.assert_allclose(numbers(rec["v"].grad), [30.0, 30.0])
    np.testing.assert_allclose(numbers(rec["u"].grad), [90.0, 90.0])
    np.testing.assert_allclose(numbers(rec["x"].grad), 1 + 90 * W)
    np.testing.assert_allclose(numbers(rec["v"].value), 3 * X * W)


@each
def test_a_replacement_of_both_saved_and_loaded(own, tmp_path):
    rec = probed(own, replace={"u": own.zeros_like}, replace_grad={"u": lambda gradient: gradient * 2})
    rec.save(tmp_path / "rec")
    for loaded in (rec, bp.load(tmp_path / "rec"), bp.load(tmp_path / "rec", to="numpy")):
        assert loaded["u"].replaced
        assert loaded["u"].replaced_grad
        np.testing.assert_allclose(numbers(loaded["u"].original), X * W)
        np.testing.assert_allclose(numbers(loaded["u"].grad), [18.0, 18.0])


@each
def test_what_does_not_fit_is_refused(own):
    for what, said in [(np.ones(3, np.float32), "shape"), (np.ones(2, np.int32), "dtype")]:
        with pytest.raises(bp.BadOption, match=f"what replaces 'u' has another {said}"):
            probed(own, replace={"u": own.array(what)})
    with pytest.raises(bp.BadOption, match="is not a tensor"):
        probed(own, replace={"u": lambda u: None})
    with pytest.raises(bp.NothingMatched, match="'uu' matches nothing"):
        probed(own, replace={"uu": own.zeros_like})


@each
def test_a_probe_without_replacing_is_as_before(own):
    plain = [numbers(entry.grad) for entry in probed(own, of=None).values() if entry.shape is not None]
    probed(own, replace={"u": own.zeros_like}, replace_grad={"v": lambda gradient: gradient * 0})
    again = probed(own)
    assert not any(entry.replaced or entry.replaced_grad for entry in again.values())
    own_grads = [numbers(entry.grad) for entry in again.values() if entry.shape is not None]
    assert all(np.array_equal(one, other) for one, other in zip(plain, own_grads, strict=True))


# TensorFlow's models and blocks


def layers():
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.layers.Dense(4, activation="relu", name="a"), keras.layers.Dense(2, name="b")])
    model(tf.ones((1, 3)))
    return model


def by_tape(model, x, exchange):
    """The gradients of the model's Variables, with a layer's output exchanged by hand."""
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(model.layers[1](exchange(model.layers[0](x))))
    return tape.gradient(loss, [variable.value for variable in model.variables])


@pytest.mark.parametrize("what", [tf.zeros_like, tf.ones_like, lambda value: value * 2], ids=["zeros", "ones", "twice"])
def test_a_layer_of_keras(what):
    model, x = layers(), tf.constant([[1.0, 2.0, 3.0]])
    names, own = ["a.kernel", "a.bias", "b.kernel", "b.bias"], by_tape(model, x, what)
    rec = bp.probe(model, of=tf.reduce_sum, replace={"a": what})(x)
    with bp.probe(model, of="loss", replace={"a": what}) as block:
        loss = tf.reduce_sum(model(x))
    for found in (rec, block):
        assert found["a"].replaced
        for name, gradient in zip(names, own, strict=True):
            grad = found[name].grad_or_none
            assert (grad is None) == (gradient is None)
            assert grad is None or np.array_equal(numbers(grad), numbers(gradient))
    assert np.array_equal(numbers(rec["a"].original), numbers(model.layers[0](x)))
    assert loss is not None


def test_a_gradient_of_a_layer_of_keras():
    @tf.custom_gradient
    def clipped(value):
        return tf.identity(value), lambda gradient: tf.clip_by_value(gradient, -0.1, 0.1)

    model, x = layers(), tf.constant([[1.0, 2.0, 3.0]])
    own = by_tape(model, x, clipped)
    rec = bp.probe(model, of=tf.reduce_sum, replace_grad={"a": lambda g: tf.clip_by_value(g, -0.1, 0.1)})(x)
    assert np.array_equal(numbers(rec["a.kernel"].grad), numbers(own[0]))
    assert np.abs(numbers(rec["a"].grad)).max() <= 0.1


def test_variables_of_keras_and_graphs_are_refused():
    model = layers()
    with pytest.raises(bp.Unsupported, match=r"the parameter 'a\.kernel' cannot be replaced in a model of Keras"):
        bp.probe(model, of=tf.reduce_sum, replace={"a.kernel": tf.zeros_like})(tf.ones((1, 3)))
    with pytest.raises(bp.NothingMatched, match="'c' matches nothing in Sequential"):
        bp.probe(model, of=tf.reduce_sum, replace={"c": tf.zeros_like})(tf.ones((1, 3)))
    graph = tf.function(lambda x: x * 2).get_concrete_function(tf.TensorSpec((), tf.float32))
    with pytest.raises(bp.Unsupported, match="replace is not available in a graph"):
        bp.probe(graph, replace={"mul": tf.zeros_like})(1.0)


def test_a_variable_stays_as_it_is():
    variable = tf.Variable([1.0, 2.0])

    def f(x, v):
        y = x * v
        return tf.reduce_sum(y * y)

    rec = bp.probe(f, replace={"v": lambda v: v * 0 + 3})(tf.constant([1.0, 1.0]), variable)
    assert np.array_equal(numbers(rec["y"].value), [3.0, 3.0])
    assert np.array_equal(numbers(rec["v"].original), [1.0, 2.0])
    assert np.array_equal(numbers(variable), [1.0, 2.0])


def test_a_recomputed_part_of_tensorflow_is_refused():
    model = layers()

    class Recomputed(keras.Model):
        def __init__(self):
            super().__init__()
            self.inner = model

        def call(self, x):
            return tf.recompute_grad(self.inner)(x)

    with pytest.raises(bp.Unsupported, match="is inside a checkpoint"):
        bp.probe(Recomputed(), of=tf.reduce_sum, replace={"inner.a": tf.zeros_like})(tf.ones((1, 3)))


# inside JAX's transformations


def scanned(x, change=lambda h: h):
    def body(carry, k):
        h = carry * k
        h = change(h)
        return jnp.sin(h), h.sum()

    carry, sums = jax.lax.scan(body, x, jnp.arange(1.0, 4.0))
    return (carry + sums[0]).sum()


def test_inside_scan_checkpoint_jit_and_vmap():
    x = jnp.asarray(X)

    def change(h):
        return jnp.sin(h) + 1

    rec = bp.probe(lambda x: scanned(x), ["x", "**:h"], replace={"/scanned/body:h": change})(x)
    np.testing.assert_allclose(rec["x"].grad, jax.grad(lambda x: scanned(x, change))(x), 1e-5)

    def inner(x):
        h = x * 2
        return h.sum() * 3

    for wrap in (jax.jit, jax.checkpoint, lambda f: lambda x: jax.vmap(f)(x[:, None])):

        def outer(x):
            return jnp.sum(wrap(inner)(x))

        rec = bp.probe(outer, ["x", "**:h"], replace={"**:h": jnp.sin}, replace_grad={"**:h": lambda g: g * 2})(x)
        np.testing.assert_allclose(rec["x"].grad, 2 * 2 * 3 * np.cos(2 * X), 1e-5)
        h = next(entry for entry in rec.values() if entry.replaced)
        np.testing.assert_allclose(np.ravel(h.original), 2 * X, 1e-6)
        np.testing.assert_allclose(np.ravel(h.value), np.sin(2 * X), 1e-6)
        np.testing.assert_allclose(np.ravel(h.grad), [6.0, 6.0])


def looped(x, steps=None):
    """A loop whose step binds ``h``; by hand, with a value of ``h`` for each step."""

    def body(carry, item):
        k, own = item
        h = carry * k if own is None else own
        out = jnp.sin(h) * jnp.cos(h * k)
        return out, out.sum()

    carry, sums = jax.lax.scan(body, x, (jnp.arange(1.0, 4.0), steps))
    return (carry + sums[0]).sum()


def vectorized(x, steps=None):
    def one(x, own):
        h = x * 3 if own is None else own
        return jnp.sin(h) * h

    return jax.vmap(one, in_axes=(0, None if steps is None else 0))(x, steps).sum()


def kept(x, steps=None):
    @jax.checkpoint
    def inner(x):
        h = x * 2 if steps is None else steps
        return jnp.sin(h).sum()

    return inner(x)


CONSTANTS = {
    "zeros": jnp.zeros_like,
    "ones": jnp.ones_like,
    "full": lambda h: jnp.full_like(h, 0.25),
    "stopped": lambda h: jax.lax.stop_gradient(h) * 0.5,
    "array": np.array([0.5, 0.7], np.float32),
}


@pytest.mark.parametrize("constant", CONSTANTS)
@pytest.mark.parametrize("program", [looped, kept])
def test_a_constant_in_traced_code_is_differentiated(program, constant):
    x = jnp.asarray(X)
    rec = bp.probe(lambda x: program(x), ["x", "**:h"], replace={"**:h": CONSTANTS[constant]})(x)
    (h,) = [entry for entry in rec.values() if entry.replaced]
    by_hand = jax.grad(lambda steps: program(x, steps))(h.value)
    np.testing.assert_allclose(h.grad, by_hand, 1e-5)
    assert np.any(by_hand != 0)
    assert rec["x"].grad_or_none is None or not np.any(numbers(rec["x"].grad))


def test_a_number_in_a_vectorized_function_is_one_value_for_all_examples():
    rec = bp.probe(lambda x: vectorized(x), ["x", "**:h"], replace={"**:h": 0.5})(jnp.asarray(X))
    (h,) = [entry for entry in rec.values() if entry.replaced]
    by_hand = jax.grad(lambda steps: vectorized(jnp.asarray(X), steps))(jnp.full(2, 0.5))
    np.testing.assert_allclose(np.sum(h.grad), np.sum(by_hand), 1e-6)
    assert "0.5" in str(rec)


def test_what_a_function_makes_of_a_value_in_a_loop_keeps_its_gradient():
    x = jnp.asarray(X)
    for change in (lambda h: h, lambda h: h * 1.0, lambda h: jnp.where(h > 1, h, 0.0)):

        def by_hand(x, change=change):
            def body(carry, k):
                h = change(carry * k)
                out = jnp.sin(h) * jnp.cos(h * k)
                return out, out.sum()

            carry, sums = jax.lax.scan(body, x, jnp.arange(1.0, 4.0))
            return (carry + sums[0]).sum()

        rec = bp.probe(lambda x: looped(x), ["x"], replace={"**:h": change})(x)
        np.testing.assert_allclose(rec["x"].grad, jax.grad(by_hand)(x), 1e-5)


def test_a_count_is_refused_where_jax_traces():
    with pytest.raises(bp.Unsupported, match="is inside a function that is traced"):
        bp.probe(lambda x: scanned(x), replace={"/scanned/body:h#1": jnp.sin})(jnp.asarray(X))


def test_a_constant_keeps_its_sign_of_zero():
    rec = bp.probe(lambda x: (1 / x).sum(), replace={"x": jnp.asarray([-0.0, 0.0])})(jnp.asarray(X))
    assert np.array_equal(np.signbit(rec["x"].value), [True, False])


def test_models_of_flax_and_equinox():
    class Linen(linen.Module):
        @linen.compact
        def __call__(self, x):
            return linen.Dense(2, name="b")(linen.relu(linen.Dense(4, name="a")(x)))

    class Nnx(nnx.Module):
        def __init__(self):
            self.a, self.b = nnx.Linear(3, 4, rngs=nnx.Rngs(0)), nnx.Linear(4, 2, rngs=nnx.Rngs(1))

        def __call__(self, x):
            return self.b(nnx.relu(self.a(x)))

    class Equinox(equinox.Module):
        a: equinox.nn.Linear
        b: equinox.nn.Linear

        def __call__(self, x):
            return self.b(jax.nn.relu(self.a(x)))

    x = jnp.asarray([1.0, 2.0, 3.0])
    variables = Linen().init(jax.random.key(0), x)
    keys = jax.random.split(jax.random.key(0))
    made = Equinox(equinox.nn.Linear(3, 4, key=keys[0]), equinox.nn.Linear(4, 2, key=keys[1]))
    for model, args, weight in [
        (Linen(), (variables, x), "a.kernel"),
        (Nnx(), (x,), "a.kernel"),
        (made, (x,), "a.weight"),
    ]:
        rec = bp.probe(model, of=jnp.sum, replace={"a": jnp.ones_like})(*args)
        assert np.array_equal(rec["a"].value, np.ones(4))
        assert rec[weight].status == bp.GradStatus.NOT_CONNECTED
        bias = rec["b.bias"].value
        kernel = rec[weight.replace("a.", "b.")].value
        np.testing.assert_allclose(rec["b"].value, bias + kernel.sum(0 if "kernel" in weight else 1), 1e-5)
        halved = bp.probe(model, of=jnp.sum, replace={weight: lambda value: value * 0})(*args)
        np.testing.assert_allclose(halved["a"].value, halved["a.bias"].value)
        doubled = bp.probe(model, of=jnp.sum, replace={"b": lambda y: y * 2})(*args)
        np.testing.assert_allclose(doubled["b.bias"].grad, [2.0, 2.0])
