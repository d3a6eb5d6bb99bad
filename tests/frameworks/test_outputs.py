"""Several outputs in one recording, in every framework, against gradients taken one loss at a time."""

import jax
import jax.numpy as jnp
import keras
import numpy as np
import pytest
import tensorflow as tf
from flax import linen
from plain_programs import PlainInterpreter, expanded, generate

import backprobe as bp
from random_programs.compare import LARGEST, Tally, compare, load
from random_programs.drawn import check_many
from random_programs.inner import one_of, returning
from random_programs.interpreter import ARGUMENTS
from sampled import count, drawn

supports = pytest.mark.supports
SECTION = "Recordings"


def check_outputs(program, framework, path, tally):
    """Two random values of a random program as outputs. False where values are too large for differences."""
    tally.run += 1
    text = expanded(program)
    oracle = PlainInterpreter()
    oracle.run(text)
    if not oracle.memory.largest < LARGEST:
        return False
    bindings = oracle.names.bindings
    chosen = {one.name: one for one in (one_of(bindings, text), one_of(bindings, text + "!"))}
    cotangents = {name: np.ones(one.value.shape) for name, one in chosen.items()}
    with framework.wide():
        function = load(text, path, ops=framework.ops, vector=lambda n: framework.tensor(n, "float64"))
        given = [framework.tensor(numbers, "float64") for numbers in ARGUMENTS]
        rec = bp.probe(function, of=list(chosen), cotangent=cotangents)(*given)
        total = rec.total()
    for name, entry in rec.items():
        parts = [framework.numpy(gradient) for gradient in entry.grads.values()]
        if parts:
            np.testing.assert_allclose(framework.numpy(total[name].grad), sum(parts), rtol=1e-12)
    return all(
        [
            compare(text, bindings, rec.of(one), tally, framework.numpy, returning(one, PlainInterpreter))
            for one in chosen
        ]
    )


@supports("`of=` a list or dict of outputs: one forward pass, and one backward pass for each", SECTION)
@drawn
def test_random_programs_with_several_random_outputs(framework, tmp_path):
    tally = Tally()

    def check(program):
        try:
            return check_outputs(program, framework, tmp_path / "program.py", tally)
        except Exception as error:
            error.add_note(program)
            raise

    check_many(generate, check, count(60, 9))
    assert tally.statuses["ok"] > count(100, 30)
    assert tally.statuses["not_connected"] > count(10, 3)


def losses(ops):
    def f(x, w):
        u = x * w
        ce = ops.sum(u * u)
        kl = ops.sum(ops.sin(u))
        return {"ce": ce, "kl": kl, "hidden": u}

    return f


def both(framework, **options):
    x, w = framework.tensor([1.0, 2.0]), framework.tensor([3.0, 4.0])
    return bp.probe(losses(framework.ops), of=["ce", "kl"], **options)(x, w)


X, W = np.array([1.0, 2.0]), np.array([3.0, 4.0])


@supports("`rec.of(key)` and `rec.total(weights)` of several outputs, also of saved ones", SECTION)
def test_one_of_them_and_their_sum(framework, tmp_path):
    rec = both(framework, partials=True, nonfinite=True)
    rec.save(tmp_path / "saved")
    for one in (rec, bp.load(tmp_path / "saved"), bp.load(tmp_path / "saved", to="numpy")):
        total = one.total({"ce": 2, "kl": -0.5})
        expected = 2 * (2 * X * W) * W - 0.5 * np.cos(X * W) * W
        np.testing.assert_allclose(np.asarray(total["x"].grad), expected, rtol=1e-6)
        value = 2 * np.sum((X * W) ** 2) - 0.5 * np.sum(np.sin(X * W))
        np.testing.assert_allclose(np.asarray(total["total()"].value), value, rtol=1e-6)
        assert total.path_sums.agree
        assert bp.health(total).ok
        assert bp.derive(total, "x").agrees
        assert one.of("ce").outputs[0].name == "ce"


@supports("a gradient of several outputs: `entry.grads[key]`, which raises where it is missing", SECTION)
def test_the_gradients_of_an_entry(framework):
    rec = both(framework)
    np.testing.assert_allclose(framework.numpy(rec["u"].grads["kl"]), np.cos(X * W), rtol=1e-6)
    assert rec["kl"].statuses == {"ce": "not_connected", "kl": "ok"}
    with pytest.raises(bp.NoGradient, match="no gradient of 'ce'"):
        rec["kl"].grads["ce"]
    with pytest.raises(bp.NoGradient, match=r"rec\.total\(\)"):
        rec["u"].grad


@supports("`rec.conflicts()`: the cosine and the norms of each pair of outputs, for each entry", SECTION)
def test_conflicts(framework):
    (one,) = both(framework).conflicts("x").found
    a, b = 2 * X * W * W, np.cos(X * W) * W
    assert one.cosine == pytest.approx(a @ b / np.linalg.norm(a) / np.linalg.norm(b), rel=1e-5)
    assert one.norms == pytest.approx((np.linalg.norm(a), np.linalg.norm(b)), rel=1e-5)


def test_functions_cotangents_and_elements(framework):
    rec = bp.probe(
        losses(framework.ops),
        of={"sum": lambda out: out["ce"] + out["kl"], "last": "u[1]", "vector": "hidden"},
        cotangent={"vector": [1.0, 10.0]},
    )(framework.tensor([1.0, 2.0]), framework.tensor([3.0, 4.0]))
    assert framework.numpy(rec["x"].grads["vector"]).tolist() == [3.0, 40.0]
    assert framework.numpy(rec["x"].grads["last"]).tolist() == [0.0, 4.0]
    expected = (2 * X * W + np.cos(X * W)) * W
    np.testing.assert_allclose(framework.numpy(rec["x"].grads["sum"]), expected, rtol=1e-6)


# JAX


def test_inside_jit_and_inside_a_scan():
    def f(x):
        def step(carry, item):
            product = carry * item
            return product, product * 2

        last, doubled = jax.lax.scan(step, 1.0, x)
        return {"last": last, "doubled": doubled.sum()}

    x = jnp.array([1.5, 2.0, -3.0])

    @jax.jit
    def inside(x):
        rec = bp.probe(f, of=["last", "doubled", "/step:product[1]"])(x)
        return dict(rec["x"].grads), rec.total({"last": 1, "doubled": 0.5})["x"].grad

    for grads, total in (inside(x), inside(x + 1)):
        assert list(grads) == ["/step:product[1]", "doubled", "last"]
    grads, total = inside(x)
    for key, by_hand in {
        "last": lambda x: f(x)["last"],
        "doubled": lambda x: f(x)["doubled"],
        "/step:product[1]": lambda x: x[0] * x[1],
    }.items():
        np.testing.assert_allclose(grads[key], jax.grad(by_hand)(x), rtol=1e-6)
    np.testing.assert_allclose(total, jax.grad(lambda x: f(x)["last"] + 0.5 * f(x)["doubled"])(x), rtol=1e-6)


class Heads(linen.Module):
    @linen.compact
    def __call__(self, x):
        hidden = jnp.tanh(linen.Dense(4, name="trunk")(x))
        return {"a": linen.Dense(1, name="a")(hidden).sum(), "b": (linen.Dense(2, name="b")(hidden) ** 2).sum()}


def test_a_flax_model():
    x = jnp.linspace(-1.0, 1.0, 6).reshape(2, 3)
    model = Heads()
    variables = model.init(jax.random.key(0), x)
    rec = bp.probe(model.bind(variables), "**", of=["a", "b"])(x)
    for key in ("a", "b"):
        grads = jax.grad(lambda variables, key=key: model.apply(variables, x)[key])(variables)["params"]
        np.testing.assert_allclose(rec["trunk.kernel"].grads[key], grads["trunk"]["kernel"], rtol=1e-5)
        assert list(rec[f"{key}.kernel"].grads) == [key]


# TensorFlow


def heads():
    keras.utils.set_random_seed(0)
    given = keras.Input((3,))
    trunk = keras.layers.Dense(4, activation="tanh", name="trunk")(given)
    a, b = keras.layers.Dense(1, name="a")(trunk), keras.layers.Dense(2, name="b")(trunk)
    return keras.Model(given, {"a": a, "b": b})


X_HEADS = tf.constant([[1.0, -2.0, 0.5], [0.3, 0.1, 2.0]])


def one_at_a_time(model, losses):
    """The gradients of the Variables by a tape for each loss."""
    found = {}
    for key, loss in losses.items():
        with tf.GradientTape() as tape:
            value = loss(model(X_HEADS))
        grads = tape.gradient(value, model.trainable_variables)
        found[key] = dict(zip((one.path for one in model.trainable_variables), grads, strict=True))
    return found


LOSSES = {"a": lambda out: tf.reduce_sum(out["a"]), "b": lambda out: tf.reduce_sum(out["b"] ** 2)}


def check_heads(rec, model):
    for key, grads in one_at_a_time(model, LOSSES).items():
        for path, grad in grads.items():
            name = path.replace("/", ".")
            if grad is None:
                assert rec[name].statuses[key] == "not_connected"
            else:
                np.testing.assert_array_equal(rec[name].grads[key], grad)


def test_a_keras_model():
    model = heads()
    check_heads(bp.probe(model, "**", of=LOSSES)(X_HEADS), model)


def test_a_block_around_a_keras_model():
    model = heads()
    with bp.probe(model, "**", of={"a": "first", "b": "second"}) as rec:
        out = model(X_HEADS)
        first = tf.reduce_sum(out["a"])
        second = tf.reduce_sum(out["b"] ** 2)
    assert (first, second) is not None
    check_heads(rec, model)


@supports("a block of TensorFlow with several outputs", "Blocks", on="tensorflow")
def test_a_block_of_several_variables():
    with bp.probe(of=["ce", "kl"]) as rec:
        v = tf.Variable([1.0, 3.0])
        u = v * v
        ce = tf.reduce_sum(u)
        kl = tf.reduce_sum(tf.sin(v))
    assert (ce, kl) is not None
    np.testing.assert_array_equal(rec["v"].grads["ce"], [2.0, 6.0])
    np.testing.assert_array_equal(rec["v"].grads["kl"], np.cos(np.float32([1.0, 3.0])))
    assert rec["u"].statuses == {"ce": "ok", "kl": "not_connected"}
    np.testing.assert_array_equal(rec.total({"ce": 3})["v"].grad, [6.0, 18.0])


def test_a_block_that_cannot_be_differentiated_says_so_of_each_output():
    with bp.probe(of=["u", "ce"]) as rec:
        v = tf.Variable([1.0, 3.0])
        u = v * v
        ce = tf.reduce_sum(u)
    assert ce is not None
    assert rec["v"].statuses == {"u": "backward_not_run", "ce": "backward_not_run"}
    assert "the gradient of 'u': shape (2,)" in rec.notes[0]


def test_a_graph_has_one_output():
    graph = tf.Graph()
    with graph.as_default():
        x = tf.compat.v1.placeholder(tf.float32, (), "x")
        y, z = x * 2, x * 3
    with pytest.raises(bp.BadOption, match="once for each"):
        bp.probe({"y": y, "z": z}, of=["y", "z"], session=tf.compat.v1.Session(graph=graph))({x: 1.0})
