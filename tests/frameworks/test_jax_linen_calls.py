"""``model.apply`` of Flax linen in a function of the program: its locals are recorded, and nothing changes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn

import backprobe as bp

X = jax.random.normal(jax.random.key(0), (8, 3))


class Block(nn.Module):
    width: int

    @nn.compact
    def __call__(self, x, train=True):
        h = nn.Dense(self.width)(x)
        h = nn.Dropout(0.3, deterministic=not train)(h)
        return nn.relu(h)


class Net(nn.Module):
    def setup(self):
        self.first, self.second = Block(4), Block(2)

    def __call__(self, x, train=True):
        u = self.first(x, train)
        v = self.second(u, train)
        return self.summed(v)

    def summed(self, v):
        total = (v**2).sum()
        return total


class Scanned(nn.Module):
    @nn.compact
    def __call__(self, x):
        layers = nn.scan(Step, variable_axes={"params": 0}, split_rngs={"params": True}, length=3, in_axes=nn.broadcast)
        c, _ = layers()(x, None)
        return c.mean()


class Step(nn.Module):
    @nn.compact
    def __call__(self, c, _):
        k = nn.Dense(3)(c)
        return nn.tanh(k), None


NET = Net()
PARAMETERS = NET.init({"params": jax.random.key(1), "dropout": jax.random.key(2)}, X)["params"]
DROPOUT = {"dropout": jax.random.key(3)}


def applied(params, x):
    loss = NET.apply({"params": params}, x, rngs=DROPOUT)
    return loss * 2


def without_dropout(params, x):
    return NET.apply({"params": params}, x, train=False)


def in_a_jit(params, x):
    @jax.jit
    def run(params):
        out = NET.apply({"params": params}, x, rngs=DROPOUT)
        return out

    return run(params)


def twice(params, x):
    first = NET.apply({"params": params}, x, rngs=DROPOUT)
    return first + NET.apply({"params": params}, x * 2, rngs=DROPOUT)


def differentiated(params, x):
    grads = jax.grad(lambda p: NET.apply({"params": p}, x, rngs=DROPOUT))(params)
    return sum(jnp.sum(grad**2) for grad in jax.tree.leaves(grads))


COMPILED = [pytest.param(program, marks=pytest.mark.sweep) for program in (in_a_jit, differentiated)]


@pytest.mark.parametrize("program", [applied, without_dropout, twice, *COMPILED])
def test_nothing_changes(program):
    rec = bp.probe(program)(PARAMETERS, X)
    assert np.array_equal(rec.result, program(PARAMETERS, X))
    for name, wanted in by_name(jax.grad(program)(PARAMETERS, X)):
        np.testing.assert_allclose(rec[f"params.{name}"].grad, wanted, rtol=1e-5, atol=1e-6)


def by_name(tree):
    return [(".".join(key.key for key in path), leaf) for path, leaf in jax.tree_util.tree_flatten_with_path(tree)[0]]


@pytest.mark.parametrize("program", [applied, without_dropout, in_a_jit])
def test_the_locals_of_modules_have_names(program):
    rec = bp.probe(program)(PARAMETERS, X)
    locals_of = {name.rpartition(":")[2].partition("#")[0] for name in rec}
    assert {"u", "v", "h"} <= locals_of


def test_a_cut_inside_a_module_is_named_by_its_line():
    class Stops(nn.Module):
        @nn.compact
        def __call__(self, x):
            h = nn.Dense(4)(x)
            kept = jax.lax.stop_gradient(h)
            return nn.Dense(1)(kept).sum()

    net = Stops()
    variables = net.init(jax.random.key(0), X)

    def f(variables, x):
        return net.apply(variables, x)

    (finding,) = bp.explain(bp.probe(f)(variables, X)).findings
    assert finding.kind == "stop_gradient" and finding.source.text == "kept = jax.lax.stop_gradient(h)"


def test_modules_inside_a_lifted_scan_run_as_they_do():
    net = Scanned()
    variables = net.init(jax.random.key(0), X)

    def f(variables, x):
        return net.apply(variables, x)

    rec = bp.probe(f)(variables, X)
    assert np.array_equal(rec.result, f(variables, X))
    assert any(name.endswith(":c") for name in rec)


def test_a_state_that_changes():
    class Counted(nn.Module):
        @nn.compact
        def __call__(self, x):
            count = self.variable("state", "count", lambda: jnp.zeros(()))
            count.value = count.value + 1.0
            h = nn.Dense(2)(x)
            return (h * count.value).sum()

    net = Counted()
    variables = net.init(jax.random.key(0), X)

    def f(params, state, x):
        loss, changed = net.apply({"params": params, "state": state}, x, mutable=["state"])
        return loss

    rec = bp.probe(f)(variables["params"], variables["state"], X)
    assert np.array_equal(rec.result, f(variables["params"], variables["state"], X))
    assert any(name.endswith(":h") for name in rec)


@pytest.mark.parametrize("target", [NET.apply, jax.jit(NET.apply)])
def test_an_apply_that_is_probed_itself_keeps_its_arguments(target):
    rec = bp.probe(target, ["variables.**", "args.0"])({"params": PARAMETERS}, X, rngs=DROPOUT)
    assert rec["variables.params.first.Dense_0.kernel"].grad.shape == (3, 4)
    assert rec["args.0"].grad.shape == X.shape
