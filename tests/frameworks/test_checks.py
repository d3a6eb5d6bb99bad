"""bp.check in each framework: wrong custom derivatives are found, right ones are not blamed, and nothing is left."""

import functools

import equinox
import flax.linen
import flax.nnx
import jax
import jax.numpy as jnp
import keras
import numpy as np
import pytest
import tensorflow as tf
import torch

import backprobe as bp

check = functools.partial(bp.check, backend="tensorflow")
check_jax = functools.partial(bp.check, backend="jax")
ROWS = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)


def supports(claim, **said):
    return pytest.mark.supports(claim, "Checks of derivatives", **said)


def line(text):
    """The line of this file that ends in a comment."""
    with open(__file__) as file:
        (found,) = [at for at, one in enumerate(file, 1) if one.rstrip().endswith(f"# {text}")]
    return found


def custom_tensorflow(forward, backward):
    @tf.custom_gradient
    def function(*inputs):
        return forward(*inputs), lambda g: backward(g, *inputs)

    return function


def custom_jax(forward, backward):
    @jax.custom_vjp
    def function(*inputs):
        return forward(*inputs)

    def pulled(inputs, g):
        found = backward(g, *inputs)
        return found if isinstance(found, tuple) else (found,)

    function.defvjp(lambda *inputs: (forward(*inputs), inputs), pulled)
    return function


def custom_torch(forward, backward):
    class Custom(torch.autograd.Function):
        @staticmethod
        def forward(ctx, *inputs):
            ctx.save_for_backward(*inputs)
            return forward(*inputs)

        @staticmethod
        def backward(ctx, g):
            return backward(g, *ctx.saved_tensors)

    return Custom.apply


MAKERS = {"torch": custom_torch, "tensorflow": custom_tensorflow, "jax": custom_jax}


WRONG = {
    "the sign": (lambda m: (lambda x: m.cos(x), lambda g, x: g * m.sin(x)), "the opposite sign", 2.0),
    "a factor": (lambda m: (lambda x: x * x, lambda g, x: g * x), "0.5 times what it should be", 0.5),
    "a mean for a sum": (
        lambda m: (lambda x: m.sum(x), lambda g, x: g * m.exp(0 * x) / 12),
        "0.0833333 times",
        11 / 12,
    ),
    "negative inputs": (
        lambda m: (lambda x: m.where(x > 0, x, 0.1 * x), lambda g, x: m.where(x > 0, g, 0.01 * g)),
        "exactly where the input is negative",
        None,
    ),
    "a term": (lambda m: (lambda x: x * m.sin(x), lambda g, x: g * m.sin(x)), "", None),
    "invented": (lambda m: (lambda x: 0 * x, lambda g, x: g), "do not change with this input", float("inf")),
}


@supports("a wrong custom derivative: the line, the input, the size of the error, what it looks like")
@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_custom_derivative_is_found(framework, what):
    make = MAKERS[framework.name]
    parts, looks, error = WRONG[what]
    wrong, right = make(*parts(framework.ops)), make(lambda x: x * x, lambda g, x: 2 * g * x)

    def f(x):
        u = right(x) + x
        y = wrong(u)  # of the custom function
        return y * 2

    report = bp.check(f, backend=framework.name)(framework.tensor(ROWS))
    (finding,) = report.findings
    assert (finding.name, finding.input, finding.source.line) == ("y", "u", line("of the custom function"))
    assert looks in "\n".join(finding.facts)
    if error is not None:
        assert finding.error == pytest.approx(error, rel=1e-6)
    assert report.judged == 4


@supports("several inputs, some of them wrong")
def test_the_input_is_named(framework):
    swapped = MAKERS[framework.name](lambda a, b: a * b, lambda g, a, b: (g * a, g * b))

    def f(x, w):
        y = swapped(x, w + 1)
        return y

    tensor = framework.tensor
    report = bp.check(f, backend=framework.name)(tensor(ROWS), tensor(ROWS[::-1].copy() ** 2))
    assert [finding.input for finding in report.findings] == ["x", "w + 1"]
    assert "it is the gradient that w + 1 should get" in report.findings[0].facts


@pytest.mark.parametrize("factor", [1.0, 1.5])
def test_what_computes_in_single_precision_inside_is_judged(framework, factor):
    single = {
        "torch": lambda x: x.float().to(x.dtype),
        "jax": lambda x: x.astype(jnp.float32).astype(x.dtype),
        "tensorflow": lambda x: tf.cast(tf.cast(x, tf.float32), x.dtype),
    }[framework.name]
    sin = MAKERS[framework.name](
        lambda x: single(framework.ops.sin(single(x))), lambda g, x: factor * g * framework.ops.cos(x)
    )
    report = bp.check(lambda x: sin(x), backend=framework.name)(framework.tensor(ROWS))
    assert report.judged == 1
    assert report.ok == (factor == 1)


@supports("operators and functions of the framework, `stop_gradient`: none is reported")
def test_programs_that_are_right_are_not_blamed(framework):
    ops = framework.ops

    def helper(u):
        v = ops.exp(u * 0.5)
        return v / (1 + v)

    def f(x, w):
        u = ops.relu(x @ w) + ops.sin(x)[:, :1] * ops.stop_gradient(x)
        rows = [helper(u[at]) for at in range(3)]
        return ops.sum(rows[0] * rows[1] - rows[2] ** 3)

    report = bp.check(f, backend=framework.name)(framework.tensor(ROWS), framework.tensor(ROWS.T @ ROWS))
    assert report.ok and report.complete, report
    assert report.judged >= 25
    assert report.error < 1e-8


@supports("kinks, which are not checked")
def test_a_kink_is_not_judged(framework):
    report = bp.check(lambda x: framework.ops.relu(x), backend=framework.name)(framework.tensor([0.0, 0.0]))
    assert report.judged == 0
    assert report.unjudged[0].endswith("not checked, it is at a kink: one-sided differences disagree")


def test_the_same_words_in_every_framework(framework):
    report = bp.check(lambda x: x * x, backend=framework.name)(framework.tensor([1.0, 2.0]))
    assert str(report).startswith(
        "<lambda>: taken by itself, each call has the right derivative (1 call checked, largest error of the "
        "right ones "
    )


# TensorFlow


half = custom_tensorflow(lambda x: x * x, lambda g, x: g * x)


@supports("inside compiled functions and loops", on="tensorflow")
def test_inside_a_tf_function_and_its_loops():
    @tf.function
    def f(x):
        total = tf.while_loop(lambda i, a: i < 2, lambda i, a: (i + 1, half(a)), [tf.constant(0), x])[1]  # in the loop
        return tf.reduce_sum(total)

    (finding,) = check(f)(tf.constant(ROWS)).findings
    assert finding.source.line == line("in the loop")


@supports("random calls", answer="not judged", on="tensorflow")
def test_what_tensorflow_draws_at_random_is_not_judged_and_not_drawn_again():
    def f(x):
        return tf.reduce_sum(tf.nn.dropout(x, 0.5) + tf.random.normal(x.shape))

    def after(call):
        tf.random.set_seed(0)
        call(tf.constant(ROWS))
        return tf.random.normal((3,)).numpy().tolist()

    assert after(lambda x: None) == after(lambda x: check(f)(x))
    report = check(f)(tf.constant(ROWS))
    assert "it draws random numbers, and TensorFlow would draw others each time" in report.unjudged[0]


def test_variables_are_inputs_and_stay_as_they_are():
    weight, count = tf.Variable(ROWS.T), tf.Variable(0.0)
    wrong = custom_tensorflow(lambda a, b: a @ b, lambda g, a, b: (g @ tf.transpose(b), 2 * tf.transpose(a) @ g))

    def f(x):
        count.assign_add(1.0)
        return wrong(x, weight.value())

    report = check(f)(tf.constant(ROWS))
    assert [finding.input for finding in report.findings] == ["weight.value()"]
    assert float(count.numpy()) == 0.0
    assert np.array_equal(weight.numpy(), ROWS.T)


@supports("models, which are left unchanged", on="tensorflow")
def test_keras_layers_are_judged_as_a_whole_and_stay_as_they_are():
    @keras.saving.register_keras_serializable("checks")
    class Wrong(keras.layers.Layer):
        def __init__(self):
            super().__init__()
            self.dense, self.norm = keras.layers.Dense(4), keras.layers.BatchNormalization()

        def call(self, x):
            hidden = self.dense(x)
            y = half(hidden)  # in the layer
            return self.norm(y)

    layer = Wrong()
    layer(tf.constant(ROWS))
    before = [variable.numpy().copy() for variable in layer.variables]
    report = check(layer)(tf.constant(ROWS))
    (finding,) = report.findings
    assert (finding.input, finding.source.line) == ("hidden", line("in the layer"))
    assert report.judged == 3
    assert all(np.array_equal(a, b.numpy()) for a, b in zip(before, layer.variables, strict=True))


def test_a_custom_derivative_in_a_model_that_is_one_call_is_blamed():
    class Squared(keras.layers.Layer):
        def call(self, x):
            return half(x)

    model = keras.Sequential([keras.layers.Dense(3), Squared()])
    model(tf.constant(ROWS))
    report = check(lambda x: model(x) * 2)(tf.constant(ROWS))
    assert [finding.error for finding in report.findings if finding.input == "x"] == [pytest.approx(0.5, rel=1e-3)]


def test_a_graph_is_refused():
    with tf.Graph().as_default():
        x = tf.compat.v1.placeholder(tf.float32)
        with pytest.raises(bp.Unsupported, match="a graph cannot be checked"):
            bp.check(x * 2)(x=1.0)


# JAX


half_jax = custom_jax(lambda x: x * x, lambda g, x: g * x)


@jax.custom_jvp
def cubed(x, scale):
    return scale * x**3


@cubed.defjvp
def _(primals, tangents):
    (x, scale), (dx, dscale) = primals, tangents
    return scale * x**3, 3 * scale * x**2 * dx - x**3 * dscale


def test_a_wrong_custom_jvp_is_found():
    report = check_jax(lambda x, scale: cubed(x, scale))(jnp.asarray(ROWS), 2.0)
    assert [finding.input for finding in report.findings] == ["scale"]
    assert "it has the opposite sign" in report.findings[0].facts


def test_double_precision_is_had_where_it_is_off():
    assert not jax.config.jax_enable_x64
    report = check_jax(lambda x: jnp.exp(x))(jnp.asarray(ROWS))
    assert report.ok and report.complete and report.error < 1e-10
    assert not jax.config.jax_enable_x64 and jnp.ones(1).dtype == jnp.float32


@supports("inside compiled functions and loops", on="jax")
def test_inside_jit_and_scan_and_under_grad():
    @jax.jit
    def f(x):
        def body(carry, row):
            carry = half_jax(carry * row)  # in the scan
            return carry, carry

        carry, rows = jax.lax.scan(body, x[0], x)
        return rows.sum() + jax.grad(lambda t: half_jax(t).sum())(x).sum()  # under grad

    report = check_jax(f)(jnp.asarray(ROWS))
    assert [finding.source.line for finding in report.findings] == [line("in the scan"), line("under grad")]


def test_vmap_is_judged_as_a_whole():
    def f(x):
        return jax.vmap(lambda row: half_jax(row).sum())(x)  # under vmap

    report = check_jax(f)(jnp.asarray(ROWS))
    assert [finding.source.line for finding in report.findings] == [line("under vmap")]


def test_indexed_updates_and_methods_of_arrays_are_judged():
    report = check_jax(lambda x: (x.at[0].set(x[1] * 2).sum(axis=0), x.T.reshape(-1).mean()))(jnp.asarray(ROWS))
    report.assert_ok(strict=True)
    assert report.judged == 7


@supports("complex numbers", on="jax")
def test_the_conventions_of_complex_numbers_are_one():
    def wrong(g, z):
        return 2 * g * jnp.conj(z)  # right in PyTorch's convention, and not in JAX's

    square = custom_jax(lambda z: z * z, wrong)
    z = jnp.asarray(ROWS + 1j * ROWS[::-1], jnp.complex64)
    assert not check_jax(lambda z: square(z))(z).ok
    assert check_jax(lambda z: jnp.abs(z * z.conj() + jnp.exp(z)).sum())(z).ok


@supports("models, which are left unchanged", on="jax")
def test_models_that_are_pytrees():
    class Layer(equinox.Module):
        linear: equinox.nn.Linear
        scale: jax.Array

        def __call__(self, x):
            y = half_jax(self.linear(x) * self.scale)  # in the equinox module
            return y

    model = Layer(equinox.nn.Linear(4, 2, key=jax.random.key(0)), jnp.ones(2))
    report = check_jax(model)(jnp.asarray(ROWS[0]))
    assert [finding.source.line for finding in report.findings] == [line("in the equinox module")]
    assert report.judged == 3


@supports("models, which are left unchanged", on="jax")
@pytest.mark.sweep
def test_models_of_nnx_are_as_before():
    class Layer(flax.nnx.Module):
        def __init__(self, rngs):
            self.linear, self.norm = flax.nnx.Linear(4, 2, rngs=rngs), flax.nnx.BatchNorm(2, rngs=rngs)

        def __call__(self, x):
            y = half_jax(self.norm(self.linear(x)))  # in the nnx module
            return y

    model, twin = (Layer(flax.nnx.Rngs(0)) for _ in range(2))
    report = check_jax(model)(jnp.asarray(ROWS))
    assert [finding.source.line for finding in report.findings] == [line("in the nnx module")]
    assert report.judged == 3
    after, expected = (
        jax.tree.leaves(flax.nnx.state(one, flax.nnx.BatchStat, flax.nnx.Param)) for one in (model, twin)
    )
    assert all(np.allclose(a, b, rtol=1e-6) for a, b in zip(after, expected, strict=True))


@supports("models, which are left unchanged", on="jax")
def test_models_of_linen():
    class Block(flax.linen.Module):
        @flax.linen.compact
        def __call__(self, x):
            y = half_jax(flax.linen.Dense(2)(x))  # in the linen module
            return y

    class Model(flax.linen.Module):
        @flax.linen.compact
        def __call__(self, x):
            return Block()(x).sum() + self.param("shift", flax.linen.initializers.ones, (2,)).sum()

    model = Model()
    variables = model.init(jax.random.key(0), jnp.asarray(ROWS))
    report = check_jax(model)(variables, jnp.asarray(ROWS))
    assert [finding.source.line for finding in report.findings] == [line("in the linen module")]


def test_unbound_models_of_linen_are_one_call():
    class Model(flax.linen.Module):
        @flax.linen.compact
        def __call__(self, x):
            return half_jax(flax.linen.Dense(2)(x))

    model = Model()
    variables = model.init(jax.random.key(0), jnp.asarray(ROWS))
    report = check_jax(lambda variables, x: model.apply(variables, x).sum())(variables, jnp.asarray(ROWS))
    assert {finding.input for finding in report.findings} == {
        "variables.params.Dense_0.kernel",
        "variables.params.Dense_0.bias",
        "x",
    }
    assert report.judged == 2 and report.notes == ()


@supports("a custom derivative in a call that is not followed", answer="named, and not checked")
def test_a_custom_derivative_out_of_sight_is_said_not_to_be_judged(framework):
    wrong = MAKERS[framework.name](lambda x: x * x, lambda g, x: g * x)

    class Of:
        def __init__(self):
            self.x = None

        def __enter__(self):
            return wrong(self.x)

        def __exit__(self, *error): ...

    def f(x):
        of = Of()
        of.x = x
        with of as y:
            return y * 2

    report = bp.check(f, backend=framework.name)(framework.tensor(ROWS))
    assert (report.judged, report.findings) == (1, ())
    assert "taken by itself, each call that was checked has the right derivative" in report.heading
    assert report.ok and not report.complete
    assert report.unjudged[0].endswith(
        "not checked, it was called where backprobe follows no calls, as in an iterator or a context manager of a class"
    )


@supports("attributes, iteration, unpacking", answer="checked, as calls are")
def test_what_is_computed_without_a_call_is_judged(framework):
    def f(x):
        a, b, _ = x
        return sum([row * 2 for row in x]) + a * b + sum(row * a for row in x)

    report = bp.check(f, backend=framework.name)(framework.tensor(ROWS))
    assert (report.ok, report.complete, report.notes) == (True, True, ())


def half_twice_tensorflow(second):
    """A cube whose second derivative is this multiple of the right one."""

    @tf.custom_gradient
    def cube(x):
        return x**3, lambda g: 3 * g * (x * x if second == 1 else tf.stop_gradient(x) * x)

    return cube


def half_twice_jax(second):
    @jax.custom_vjp
    def cube(x):
        return x**3

    by = (lambda x: x * x) if second == 1 else lambda x: jax.lax.stop_gradient(x) * x
    cube.defvjp(lambda x: (x**3, x), lambda x, g: (3 * g * by(x),))
    return cube


@supports("derivatives of derivatives, against differences of gradients", on="tensorflow")
@pytest.mark.parametrize("second", [0.5, 1])
def test_second_derivatives_in_tensorflow(second):
    cube = half_twice_tensorflow(second)

    def f(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.reduce_sum(cube(x))  # twice in TensorFlow
        return tf.reduce_sum(tape.gradient(y, x) ** 2)

    report = bp.check(f)(tf.constant(ROWS))
    assert report.ok is (second == 1), report
    lines = [line("twice in TensorFlow")] if second < 1 else []
    assert [one.source.line for one in report.findings] == lines
    assert all("the second derivative of `cube(x)`" in one.headline for one in report.findings)


@supports("third derivatives", on="tensorflow", answer="said not to be checked")
def test_third_derivatives_in_tensorflow_are_said_not_to_be_judged():
    def f(x):
        with tf.GradientTape() as outer:
            outer.watch(x)
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = tf.reduce_sum(x**3)
            first = tape.gradient(y, x)
        return tf.reduce_sum(outer.gradient(first, x) ** 2)

    report = bp.check(f)(tf.constant(ROWS))
    assert report.ok and not report.complete and "outer.gradient(first, x)" in report.heading
    assert "third derivatives are not checked" in report.unjudged[0]


@supports("derivatives of derivatives, against differences of gradients", on="jax")
@pytest.mark.parametrize("second", [0.5, 1])
@pytest.mark.parametrize(
    "transform",
    [
        lambda f, x: jax.grad(f)(x),
        lambda f, x: jax.value_and_grad(f)(x)[1],
        lambda f, x: jax.jacrev(f)(x),
        lambda f, x: jax.vjp(f, x)[1](jnp.ones(()))[0],
        lambda f, x: jax.jit(jax.grad(f))(x),
        lambda f, x: equinox.filter_grad(f)(x),
    ],
)
def test_second_derivatives_in_jax(transform, second):
    cube = half_twice_jax(second)

    def penalty(x):
        def energy(x):
            return cube(x).sum()  # twice in JAX

        return (transform(energy, x) ** 2).sum()

    report = check_jax(penalty)(jnp.asarray(ROWS))
    assert report.ok is (second == 1), report
    lines = [line("twice in JAX")] if second < 1 else []
    assert [one.source.line for one in report.findings] == lines


@supports("third derivatives", on="jax", answer="said not to be checked")
@pytest.mark.parametrize("transform", [jax.hessian, lambda f: jax.grad(lambda x: jax.grad(f)(x).sum())])
def test_third_derivatives_in_jax_are_said_not_to_be_judged(transform):
    report = check_jax(lambda x: transform(lambda x: (x**3).sum())(x).sum())(jnp.asarray(ROWS[0]))
    assert report.ok and not report.complete and "third derivatives are not checked" in report.unjudged[0]


def test_a_gradient_of_a_function_of_the_library_in_jax():
    report = check_jax(lambda x: jax.grad(jnp.sin)(x) * x)(jnp.asarray(0.5))
    assert (report.ok, report.complete, report.notes) == (True, True, ())


# PyTorch, whose other tests are in tests/test_check*.py


@supports("inside compiled functions and loops", on="torch", answer="loops; not what `torch.compile` compiled")
def test_loops_in_pytorch():
    half_torch = custom_torch(lambda x: x * x, lambda g, x: g * x)

    def f(x):
        for _ in range(2):
            x = half_torch(x)  # in the loop of PyTorch
        return x

    report = bp.check(f)(torch.tensor(ROWS))
    assert [finding.source.line for finding in report.findings] == [line("in the loop of PyTorch")]


@supports("random calls", on="torch", answer="checked with the random state restored")
def test_dropout_in_pytorch():
    bp.check(lambda x: torch.nn.functional.dropout(x))(torch.tensor(ROWS)).assert_ok(strict=True)


@supports("random calls", on="jax")
def test_dropout_in_jax():
    key = jax.random.key(0)
    assert check_jax(lambda x: x * jax.random.bernoulli(key, 0.5, x.shape))(jnp.asarray(ROWS)).ok


@supports("models, which are left unchanged", on="torch")
def test_a_model_in_pytorch():
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4), torch.nn.ReLU())
    before = model[0].weight.clone()
    bp.check(model)(torch.tensor(ROWS)).assert_ok(strict=True)
    assert torch.equal(model[0].weight, before) and int(model[1].num_batches_tracked) == 0


@supports("complex numbers", on="torch")
@supports("complex numbers", on="tensorflow")
@pytest.mark.parametrize("name", ["torch", "tensorflow"])
def test_a_conjugate_is_missed(name):
    given = {"torch": torch.tensor, "tensorflow": tf.constant}[name](ROWS + 1j * ROWS[::-1])
    wrong = MAKERS[name](lambda z: z * z, lambda g, z: 2 * g * z)
    report = bp.check(lambda z: wrong(z), backend=name)(given)
    assert [finding.input for finding in report.findings] == ["z"]
    bp.check(lambda z: z * z * z, backend=name)(given).assert_ok(strict=True)


def derived(y, x):
    return torch.autograd.grad(y.sum(), x, create_graph=True)[0]


@supports("derivatives of derivatives, against differences of gradients", on="torch")
def test_second_derivatives_in_pytorch():
    report = bp.check(lambda x: derived(torch.tanh(x), x))(torch.tensor(ROWS))
    assert (report.ok, report.complete, report.notes) == (True, True, ())


@supports("third derivatives", on="torch", answer="said not to be checked")
def test_third_derivatives_in_pytorch_are_said_not_to_be_judged():
    report = bp.check(lambda x: derived(derived(torch.tanh(x), x), x))(torch.tensor(ROWS))
    assert report.ok and not report.complete and "third derivatives are not checked" in str(report)
