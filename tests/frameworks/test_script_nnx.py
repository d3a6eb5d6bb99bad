"""``backprobe explain train.py`` with models of Flax NNX: parameters without a gradient, by their path in the model."""

import re
import sys

import jax
import jax.numpy as jnp
import pytest
from flax import nnx

import backprobe as bp
from commands import invoked, unplaced

NET = """\
import jax, jax.numpy as jnp
from flax import nnx

class Net(nnx.Module):
    def __init__(self, rngs):
        self.enc, self.spare = nnx.Linear(3, 4, rngs=rngs), nnx.Linear(4, 4, rngs=rngs)
        self.blocks = nnx.List([nnx.Linear(4, 4, rngs=rngs) for _ in range(2)])
        self.norm, self.drop = nnx.BatchNorm(4, rngs=rngs), nnx.Dropout(0.5, rngs=rngs)

    def __call__(self, x):
        FORWARD

net, x = Net(nnx.Rngs(0)), jnp.linspace(-1.0, 2.0, 12).reshape(4, 3) ** 2
"""
PLAIN = """
def loss_fn(model, x):
    return jnp.mean(model(x) ** 2)

for _ in range(2):
    loss, grads = nnx.value_and_grad(loss_fn)(net, x)
"""
JITTED = """
@nnx.jit
def step(model, x):
    return nnx.value_and_grad(lambda model: jnp.mean(model(x) ** 2))(model)

step(net, x)
"""
SPLIT = """
net.eval()
graph, params, rest = nnx.split(net, nnx.Param, ...)

def loss_fn(params, x):
    return jnp.mean(nnx.merge(graph, params, rest)(x) ** 2)

jax.grad(loss_fn)(params, x)
"""
STALE = SPLIT.replace("nnx.merge(graph, params, rest)(x)", "net(x)")
HEADS = "nnx.grad(lambda m: jnp.mean(m(x) ** 2), argnums=nnx.DiffState(0, nnx.PathContains('blocks')))(net)"
ALL = "for block in self.blocks:\n            x = block(x)\n        return self.drop(self.norm(x))"
WHOLE = "x = nnx.relu(self.spare(self.enc(x)))\n        " + ALL
STOPPED = "x = jax.lax.stop_gradient(nnx.relu(self.enc(x)))\n        " + ALL


@pytest.fixture
def script(tmp_path, monkeypatch):
    """Explain a script in this process: its output and its exit status."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "excepthook", sys.__excepthook__)

    def explain(forward, step):
        (tmp_path / "train.py").write_text(NET.replace("FORWARD", forward) + step)
        status, out, err = invoked("explain", "train.py")
        return status, out + err

    return explain


@pytest.mark.parametrize(
    "step, name",
    [
        pytest.param(PLAIN, "model", marks=pytest.mark.sweep),
        (JITTED, "model"),
        pytest.param(SPLIT, "params", marks=pytest.mark.sweep),
    ],
)
def test_what_is_cut_off_and_what_is_not_used_have_their_paths(script, step, name):
    status, out = script(STOPPED, step)
    assert status == 1, out
    assert out.startswith("4 of 10 parameters got no gradient\n"), out
    assert f": 2 parameters get no gradient ({name}.spare.bias, {name}.spare.kernel)\n" in out
    assert re.search(r"`jax\.lax\.stop_gradient\(nnx\.relu\(self\.enc\(x\)\)\)` cuts \S+ off from ", unplaced(out))
    assert f"{name}.enc.bias, {name}.enc.kernel" in out
    assert "cut off inside" not in out
    assert out.count("next:") == 2, out


def test_positions_cut_off_all(script):
    status, out = script(WHOLE, PLAIN.replace("jnp.mean(model(x) ** 2)", "jnp.mean(jnp.argmax(model(x), -1) * 1.0)"))
    assert status == 1, out
    assert out.startswith("10 of 10 parameters got no gradient\n"), out
    assert "gives positions" in out
    assert "cut off inside" not in out


@pytest.mark.parametrize("step", [PLAIN, JITTED, SPLIT, HEADS])
def test_running_statistics_and_what_is_not_asked_for_are_not_parameters(script, step):
    status, out = script(WHOLE, step)
    assert status == 0, out
    assert f"all {4 if step is HEADS else 10} parameters got a gradient" in out


def test_a_block_of_a_list_that_is_left_out(script):
    status, out = script(WHOLE.replace("in self.blocks:", "in self.blocks[:-1]:"), JITTED)
    assert status == 1, out
    assert "nothing is computed from these parameters: 2 parameters get no gradient (" in out
    assert "model.blocks.1.bias, model.blocks.1.kernel" in out
    assert out.count("next:") == 1, out


def test_the_model_around_instead_of_the_one_that_is_merged(script):
    status, out = script(WHOLE, STALE)
    assert status == 1, out
    assert out.startswith("10 of 10 parameters got no gradient")
    assert "this line reads arrays from outside the function, and not from the argument" in out


def test_a_function_names_the_parameters_of_a_model_that_it_is_given():
    model = nnx.Linear(3, 2, rngs=nnx.Rngs(0))

    def loss_fn(model, x):
        return jnp.mean(model(x) ** 2)

    rec = bp.probe(loss_fn)(model, jnp.ones((4, 3)))
    wanted = nnx.grad(loss_fn)(model, jnp.ones((4, 3)))
    assert rec["model.kernel"].grad.tolist() == wanted.kernel.get_value().tolist()
    assert rec["model.bias"].grad.tolist() == wanted.bias.get_value().tolist()
    assert not [leaf for leaf in jax.tree.leaves(nnx.state(model)) if isinstance(leaf, jax.core.Tracer)]


def test_a_value_without_a_name_between_is_not_where_it_is_cut_off():
    def ranked(w, x):
        edges = jnp.cumsum(jax.nn.softplus(w))
        return jnp.mean(jnp.searchsorted(edges, x).astype(jnp.float32))

    with pytest.raises(bp.NothingToDifferentiate) as caught:
        bp.probe(ranked)(jnp.ones(3), jnp.array([0.1, 2.0]))
    (note,) = caught.value.__notes__
    assert note.count("cut:") == 1
    assert "`jnp.searchsorted(edges, x)` gives positions" in note
