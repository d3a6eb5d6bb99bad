"""``of=`` the name of a value that is not returned, in every framework."""

import jax
import jax.numpy as jnp
import keras
import numpy as np
import pytest
import tensorflow as tf
from plain_programs import PlainInterpreter, expanded, generate

import backprobe as bp
from random_programs.compare import LARGEST, Tally, compare, load
from random_programs.drawn import check_many
from random_programs.inner import one_of, returning
from random_programs.interpreter import ARGUMENTS
from sampled import count, drawn


def check_inner(program, framework, path, tally):
    """A random value of a random program as the output. False where values are too large for differences."""
    tally.run += 1
    text = expanded(program)
    oracle = PlainInterpreter()
    oracle.run(text)
    if not oracle.memory.largest < LARGEST:
        return False
    chosen = one_of(oracle.names.bindings, text)
    with framework.wide():
        function = load(text, path, ops=framework.ops, vector=lambda n: framework.tensor(n, "float64"))
        given = [framework.tensor(numbers, "float64") for numbers in ARGUMENTS]
        rec = bp.probe(function, of=chosen.name, cotangent=np.ones(chosen.value.shape))(*given)
    assert rec.outputs == (rec[chosen.name],)
    inner = returning(chosen.name, PlainInterpreter)
    return compare(text, oracle.names.bindings, rec, tally, framework.numpy, inner)


@drawn
def test_any_value_of_random_programs(framework, tmp_path):
    tally = Tally()

    def check(program):
        try:
            return check_inner(program, framework, tmp_path / "program.py", tally)
        except Exception as error:
            error.add_note(program)
            raise

    check_many(generate, check, count(80, 12))
    assert tally.statuses["ok"] > count(100, 15)


# JAX: values inside of what is transformed


def scanned(x):
    def step(carry, item):
        product = carry * item
        return product, product * 2

    last, _ = jax.lax.scan(step, 1.0, x)
    return last


def squared(x):
    @jax.jit
    def inner(z):
        square = z**2
        return square * 3

    return inner(jnp.sum(x))


def kept(x):
    @jax.checkpoint
    def inner(z):
        square = z**2
        return jnp.sin(square)

    return jnp.sum(inner(x))


def chosen(x):
    def positive(z):
        double = z * 2
        return double

    return jax.lax.cond(x[0] > 0, positive, lambda z: z * 3, jnp.sum(x))


@pytest.mark.parametrize(
    ("program", "of", "by_hand"),
    [
        (scanned, "/step:product[1]", lambda x: x[0] * x[1]),
        (scanned, "/step:product[-1]", lambda x: jnp.prod(x)),
        (squared, "/inner:square", lambda x: jnp.sum(x) ** 2),
        (kept, "/inner:square[2]", lambda x: x[2] ** 2),
        (chosen, "/positive:double", lambda x: jnp.sum(x) * 2),
    ],
)
def test_a_value_inside_a_transformation(program, of, by_hand):
    x = jnp.array([1.5, 2.0, -3.0])
    rec = bp.probe(program, of=of)(x)
    np.testing.assert_allclose(rec["x"].grad, jax.grad(by_hand)(x), rtol=1e-6)
    assert rec.outputs == (rec[of],)


def test_a_branch_that_was_not_taken_is_no_output():
    with pytest.raises(bp.BadOutput) as caught:
        bp.probe(chosen, of="/positive:double")(jnp.array([-1.0, 2.0]))
    assert "inside a transformation" in str(caught.value)


def test_a_value_of_a_whole_transformation_is_refused():
    def program(x):
        return jnp.sum(jax.vmap(jax.grad(lambda z: jnp.sin(z) * z))(x))

    def outer(x):
        def body(z):
            hidden = z * 2
            return jnp.sum(hidden)

        return jnp.sum(jax.hessian(body)(x))

    assert bp.probe(program)(jnp.ones(2)).result is not None
    with pytest.raises(bp.BackprobeError):
        bp.probe(outer, of="/body:hidden")(jnp.ones(2))


# TensorFlow: models, blocks, Variables


def network():
    keras.utils.set_random_seed(0)
    return keras.Sequential(
        [
            keras.layers.Input((3,)),
            keras.layers.Dense(4, activation="tanh", name="one"),
            keras.layers.Dense(2, name="two"),
        ]
    )


def test_an_element_of_a_layer_of_a_keras_model():
    model, x = network(), tf.constant([[1.0, -2.0, 0.5]])
    rec = bp.probe(model, "**", of="one[0, 2]")(x)
    with tf.GradientTape() as tape:
        element = model.layers[0](x)[0, 2]
    kernel, bias = tape.gradient(element, model.layers[0].trainable_variables)
    np.testing.assert_array_equal(rec["one.kernel"].grad, kernel)
    np.testing.assert_array_equal(rec["one.bias"].grad, bias)
    assert rec["two"].status == "not_connected"


def helper(z):
    t = z * z
    return t * 2


@pytest.mark.parametrize("of", ["/helper:t[1]", "u[1]"])
def test_a_value_of_a_block(of):
    with bp.probe(of=of) as rec:
        v = tf.Variable([1.0, 3.0])
        u = v * v
        helper(v)
        last = u * 3.0
    np.testing.assert_array_equal(rec["v"].grad, [0.0, 6.0])
    assert rec[of].value == 9.0
    assert rec["last"].status == "not_connected"


def test_a_variable_that_was_written_since_is_refused():
    v = tf.Variable(2.0)

    def program(x):
        held = v
        y = held * x
        v.assign(5.0)
        return y

    with pytest.raises(bp.BadOutput, match="modified in place"):
        bp.probe(program, of="held#0")(tf.constant(3.0))


@pytest.mark.parametrize(
    ("of", "element"),
    [
        ("o[0, 1]", lambda o: o[0, 1]),
        ("pair[1][0, 0]", lambda o: 2 * o[0, 0]),
        ("pair[-1][0, 0]", lambda o: 2 * o[0, 0]),
        ("held.a[0, -1]", lambda o: o[0, -1]),
        ("held.n[0]", lambda o: tf.reduce_sum(o)),
    ],
)
def test_an_element_of_a_variable_of_a_block_around_a_model(of, element):
    model, x = network(), tf.constant([[1.0, -2.0, 0.5]])
    with bp.probe(model, of=of) as rec:
        o = model(x)
        pair = (o, o * 2)
        held = {"a": o, "n": [tf.reduce_sum(o)]}
    del pair, held
    with tf.GradientTape() as tape:
        chosen = element(model(x))
    np.testing.assert_allclose(rec["one.kernel"].grad, tape.gradient(chosen, model.layers[0].kernel.value), 1e-6)


@pytest.mark.parametrize(
    ("of", "instead"),
    [
        ("o[0, 9]", "of='o[0, 0]'"),
        ("o[foo]", "of='o[0, 0]'"),
        ("pair[5]", "of='pair[0]'"),
        ("held['a'][0, 0]", "of='held.a[0, 0]'"),
        ("oo[0, 0]", "of='o[0, 0]'"),
        ("two#3[0, 0]", "of='two[0, 0]'"),
    ],
)
def test_what_a_block_does_not_have_is_said_and_not_noted(of, instead):
    model, x = network(), tf.constant([[1.0, -2.0, 0.5]])
    with pytest.raises(bp.BadOutput) as caught, bp.probe(model, of=of):
        o = model(x)
        pair = (o, o * 2)
        held = {"a": o}
    assert instead in caught.value.next
    del pair, held


def test_an_element_of_what_is_returned(framework):
    def program(x):
        u = x * x
        return {"pair": (u, u * 3), "loss": u[0]}

    x = framework.tensor([1.0, 2.0, 3.0], "float32")
    for of, expected in (("pair[1][2]", [0.0, 0.0, 18.0]), ("pair.0[-1]", [0.0, 0.0, 6.0]), ("pair[0][1]", [0, 4, 0])):
        np.testing.assert_allclose(framework.numpy(bp.probe(program, of=of)(x)["x"].grad), expected)
    for of in ("pair[1][3]", "pair[0][0, 0]"):
        with pytest.raises(bp.BadOutput, match="no such element"):
            bp.probe(program, of=of)(x)
    with pytest.raises(bp.BadOutput, match="has no position 2"):
        bp.probe(program, of="pair[2]")(x)


def test_what_tensorflow_says_is_quoted_without_its_internals():
    variable = tf.Variable([[1.0, 2.0]])
    with pytest.raises(tf.errors.InvalidArgumentError), bp.probe() as rec:
        tf.matmul(variable, variable)
    (note,) = [note for note in rec.notes if "raised" in note]
    assert "InvalidArgumentError: Matrix size-incompatible: In[0]: [1,2], In[1]: [1,2]" in note
    assert "{{" not in note
    assert "[Op:" not in note
    model = network()
    with pytest.raises(ValueError, match="incompatible"), bp.probe(model) as rec:
        model(tf.ones((1, 4)))
    assert not any("Exception encountered" in note or "\x1b" in note for note in rec.notes)


@pytest.mark.parametrize("of", ["u[3]", "u[-4]", "u[0, 0]"])
def test_an_element_that_does_not_exist(framework, of):
    def program(x):
        u = x * 2
        return {"loss": u[0] * u[1]}

    with pytest.raises(bp.BadOutput, match="'u' has no such element"):
        bp.probe(program, of=of)(framework.tensor([1.0, 2.0, 3.0], "float32"))


def test_a_step_of_a_scan_that_does_not_exist():
    with pytest.raises(bp.BadOutput, match="no such element"):
        bp.probe(scanned, of="/step:product[3]")(jnp.array([1.0, 2.0, 3.0]))
