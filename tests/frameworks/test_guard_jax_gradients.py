"""``bp.guard`` in JAX: gradients that ``jax.grad`` and ``jax.value_and_grad`` give, and the values that they are of."""

from __future__ import annotations

import contextlib
import warnings

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen, nnx

import backprobe as bp

SQRT = "Inf is born in the backward of {}: the derivative of sqrt is infinite at 0"


def loss(params, x):
    h = params["w"] * x
    root = jnp.sqrt(h.sum())
    return root + params["b"]


MADE_BEFORE = jax.value_and_grad(loss)
PARAMS = {"w": jnp.ones(2), "b": 0.0}
ZERO = jnp.zeros(2)


def guarded(run, *model, **options):
    with pytest.raises(bp.NotFinite) as caught, bp.guard(*model, **options):
        run()
    return caught.value


@pytest.mark.parametrize(
    "run",
    [
        lambda: MADE_BEFORE(PARAMS, ZERO),
        lambda: jax.grad(loss)(PARAMS, ZERO),
        lambda: jax.grad(loss, argnums=(0,))(PARAMS, ZERO),
        lambda: jax.grad(loss, argnums=-2)(PARAMS, ZERO),
        lambda: jax.vmap(jax.grad(loss), in_axes=(None, 0))(PARAMS, jnp.ones((3, 2)).at[1].set(0)),
        lambda: jax.jacfwd(lambda t: jax.grad(loss)(PARAMS, ZERO * t)["w"])(1.0),
    ],
    ids=["made_before", "grad", "argnums", "negative", "vmap", "inside_forward_mode"],
)
def test_a_gradient_that_is_not_finite_raises_with_the_operation(run):
    error = guarded(run)
    assert error.headline == "NaN in the gradient of 'params.w' that jax.grad(loss) returned"
    first = error.report.findings[0]
    assert first.headline == SQRT.format("'root'")
    assert first.source.text.strip() == "root = jnp.sqrt(h.sum())"


def test_it_raises_before_the_update():
    params, steps = {"w": jnp.ones(2), "b": 0.0}, 0
    with pytest.raises(bp.NotFinite), bp.guard():
        for x in (jnp.ones(2), ZERO):
            _, gradients = MADE_BEFORE(params, x)
            params = jax.tree.map(lambda p, g: p - 0.1 * g, params, gradients)
            steps += 1
    assert steps == 1
    assert jnp.isfinite(params["w"]).all()


def test_the_value_is_looked_at_too():
    error = guarded(lambda: jax.value_and_grad(loss)(PARAMS, -jnp.ones(2)))
    assert error.headline == "NaN in the value that jax.grad(loss) differentiates"
    assert error.report.findings[0].headline == "NaN is born at 'root': the square root of a negative number"


def test_auxiliary_values_are_not():
    def with_parts(params, x):
        return loss(params, x + 1), jnp.log(x)

    with bp.guard():
        (_, parts), _ = jax.value_and_grad(with_parts, has_aux=True)(PARAMS, ZERO)
    assert jnp.isinf(parts).all()
    error = guarded(lambda: jax.grad(lambda params, x: (loss(params, x), x), has_aux=True)(PARAMS, ZERO))
    assert error.report.findings[0].headline == SQRT.format("'/loss:root'")


def test_a_gradient_inside_of_another_is_a_value_of_it():
    def outer(w):
        slope = jax.lax.stop_gradient(jax.grad(lambda v: jnp.sqrt(jnp.abs(v)))(w))
        return jnp.where(jnp.isfinite(slope), slope, 0.0) * w

    with bp.guard():
        jax.grad(outer)(0.0)


def test_allowed_gradients_and_places_do_not_raise():
    with bp.guard(allow="params.w"):
        MADE_BEFORE(PARAMS, ZERO)
    with bp.guard(allow=["root", "h"]):
        MADE_BEFORE(PARAMS, ZERO)
    guarded(lambda: MADE_BEFORE(PARAMS, ZERO), allow="elsewhere")


@pytest.mark.parametrize("jitted", [jax.jit(MADE_BEFORE), jax.jit(jax.grad(loss))], ids=["value_and_grad", "grad"])
def test_what_jit_compiles_is_said_once_each_time(jitted):
    for found in ("a gradient that jax.jit compiles", "no gradient"):
        with pytest.warns(UserWarning, match=f"saw {found}: it looks at what jax.grad") as caught, bp.guard():
            for _ in range(2):
                jitted(PARAMS, ZERO)
        assert len(caught) == 1
        assert "jax_debug_nans" in str(caught[0].message)
        assert caught[0].filename == __file__
    with jax.disable_jit():
        guarded(lambda: jitted(PARAMS, ZERO))


def trained(guard):
    params, losses = {"w": jnp.ones(3), "b": 0.5}, []
    with guard():
        for at in range(10):
            x = jax.random.normal(jax.random.key(at), (3,)) ** 2
            value, gradients = MADE_BEFORE(params, x)
            params = jax.tree.map(lambda p, g: p - 0.01 * g, params, gradients)
            losses.append(float(value))
    return losses, jax.tree.leaves(params)


def test_ten_steps_are_bitwise_the_same_and_nothing_is_left_behind():
    from jax._src import api

    before = dict(vars(api))
    bare, probed = trained(contextlib.nullcontext), trained(bp.guard)
    assert bare[0] == probed[0]
    assert all(np.array_equal(one, other) for one, other in zip(bare[1], probed[1], strict=True))
    assert {name: value for name, value in vars(api).items() if before.get(name) is not value} == {}


class Root(eqx.Module):
    linear: eqx.nn.Linear

    def __call__(self, x):
        h = self.linear(x) * x.sum()
        return jnp.sqrt(jnp.square(h)).sum()


ROOT = Root(eqx.nn.Linear(2, 2, key=jax.random.key(0)))


def mean(model, xs):
    return jax.vmap(model)(xs).mean()


@pytest.mark.parametrize("model", [[ROOT], []], ids=["model", "plain"])
@pytest.mark.parametrize(
    "differentiated",
    [eqx.filter_grad(mean), eqx.filter_value_and_grad(mean), jax.grad(mean)],
    ids=["filter_grad", "filter_value_and_grad", "grad"],
)
def test_gradients_of_equinox(model, differentiated):
    error = guarded(lambda: differentiated(ROOT, jnp.ones((3, 2)).at[1].set(0)), *model)
    assert (
        error.headline
        == "NaN in the gradient of 'model.linear.weight', 'model.linear.bias' that jax.grad(mean) returned"
    )
    assert error.report.findings[0].source.text.strip() == "return jnp.sqrt(jnp.square(h)).sum()"


def test_a_penalty_of_the_parameters_alone_is_the_models():
    error = guarded(lambda: eqx.filter_grad(lambda m: jnp.sqrt((m.linear.bias * 0).sum()))(ROOT), ROOT)
    assert error.report.findings[0].headline == SQRT.format("'return'")


def test_gradients_of_others_are_not():
    with warnings.catch_warnings(), bp.guard(ROOT):
        ROOT(jnp.ones(2))
        assert jnp.isinf(jax.grad(jnp.sqrt)(0.0))


class Norm(nnx.Module):
    def __init__(self, rngs):
        self.linear, self.drop = nnx.Linear(2, 2, rngs=rngs), nnx.Dropout(0.5, rngs=rngs)

    def __call__(self, x):
        h = self.drop(self.linear(x))
        return jnp.sqrt(jnp.square(h).sum())


def norm(model, x):
    return model(x)


@pytest.mark.parametrize("with_model", [True, False])
def test_gradients_of_nnx(with_model):
    model = Norm(nnx.Rngs(0))
    error = guarded(lambda: nnx.value_and_grad(norm)(model, ZERO), *([model] if with_model else []))
    assert (
        error.headline
        == "NaN in the gradient of 'model.linear.bias', 'model.linear.kernel' that jax.grad(norm) returned"
    )
    assert error.report.findings[0].source.text.strip() == "return jnp.sqrt(jnp.square(h).sum())"
    assert int(model.drop.rngs.count[...]) <= 1  # the gradient that was taken again was of a copy


def test_gradients_of_linen_without_a_model():
    dense = linen.Dense(2)
    variables = dense.init(jax.random.key(0), ZERO)

    def length(variables):
        out = dense.apply(variables, ZERO)
        return jnp.linalg.norm(out)

    error = guarded(lambda: jax.grad(length)(variables))
    assert error.headline.startswith("NaN in the gradient of 'variables.params.bias', 'variables.params.kernel'")
    assert error.report.findings[0].source.text.strip() == "return jnp.linalg.norm(out)"


def test_a_gradient_that_cannot_be_taken_again_raises_and_names_no_line():
    calls = []

    def once(w):
        calls.append(w)
        if len(calls) > 1:
            raise ValueError("no more")
        return jnp.sqrt(w)

    error = guarded(lambda: jax.grad(once)(0.0))
    (first,) = error.report.findings
    assert first.kind == "unknown"
    assert first.headline.endswith("made again, it raised ValueError")
    assert "bp.explain(bp.probe(loss, nonfinite=True)(...))" in first.remedy


def test_errors_of_the_program_come_out_as_they_are():
    with bp.guard():
        with pytest.raises(TypeError, match="Gradient only defined for scalar-output"):
            jax.grad(lambda x: x * 2)(jnp.ones(2))
        jax.grad(lambda x: x * 2)(1.0)
