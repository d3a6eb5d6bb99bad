"""What a model of Flax holds beside its parameters lacks nothing where no gradient comes to it, as in training."""

import jax
import jax.numpy as jnp
import pytest
from flax import linen as nn
from flax import nnx

import backprobe as bp

X = jax.random.normal(jax.random.key(0), (8, 3))


class Net(nnx.Module):
    def __init__(self, rngs):
        self.linear = nnx.Linear(3, 4, rngs=rngs)
        self.norm = nnx.BatchNorm(4, rngs=rngs)

    def __call__(self, x):
        h = nnx.relu(self.norm(self.linear(x)))
        return h


class LinenNet(nn.Module):
    @nn.compact
    def __call__(self, x, train=True):
        h = nn.BatchNorm(use_running_average=not train)(nn.Dense(4)(x))
        return nn.relu(h)


def of_model(model, x):
    h = model(x)
    return jnp.mean((h - 1) ** 2)


def of_parts(graph, parameters, others, x):
    h = nnx.merge(graph, parameters, others)(x)
    return jnp.mean((h - 1) ** 2)


def of_variables(variables, x):
    h, _ = LinenNet().apply(variables, x, mutable=["batch_stats"])
    return jnp.mean((h - 1) ** 2)


def of_statistics(params, stats, x):
    h, _ = LinenNet().apply({"params": params, "batch_stats": stats}, x, mutable=["batch_stats"])
    return jnp.mean((h - 1) ** 2)


def linen_variables():
    return LinenNet().init(jax.random.key(0), X)


RECORDED = {
    "a model": lambda: bp.probe(of_model)(Net(nnx.Rngs(0)), X),
    "its parts": lambda: bp.probe(of_parts)(*nnx.split(Net(nnx.Rngs(0)), nnx.Param, ...), X),
    "variables": lambda: bp.probe(of_variables)(linen_variables(), X),
    "a collection by itself": lambda: bp.probe(of_statistics)(*linen_variables().values(), X),
    "a model itself": lambda: bp.probe(Net(nnx.Rngs(0)), of=lambda h: h.mean())(X),
    "a linen model itself": lambda: bp.probe(LinenNet(), of=lambda returned: returned[0].mean())(
        linen_variables(), X, mutable=["batch_stats"]
    ),
}


@pytest.mark.parametrize("form", RECORDED)
def test_running_statistics_in_training_are_no_finding(form):
    rec = RECORDED[form]()
    mean = next(entry for entry in rec.values() if entry.why is not None and "and not a parameter" in str(entry.why))
    assert mean.status == "not_connected"
    report = bp.explain(rec)
    assert report.ok, str(report)
    assert any(note.startswith("held by the model beside its parameters") for note in report.notes)


def test_running_statistics_that_are_used_have_a_gradient():
    model = Net(nnx.Rngs(0))
    model.eval()
    rec = bp.probe(of_model)(model, X)
    assert rec["model.norm.mean"].grad.shape == (4,)
    assert bp.explain(rec).ok


def test_a_parameter_that_is_not_used_is_still_a_finding():
    def f(model, x):
        return jnp.mean(model.linear(x))

    report = bp.explain(bp.probe(f)(Net(nnx.Rngs(0)), X))
    assert not report.ok
    assert "model.norm.scale" in str(report)


def test_a_dictionary_that_has_no_parameters_is_not_a_models():
    report = bp.explain(bp.probe(lambda given: jnp.sum(given["w"]))({"w": X, "batch_stats": X * 1.0}))
    assert not report.ok
