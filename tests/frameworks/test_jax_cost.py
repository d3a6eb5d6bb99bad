"""The cost of a probe outside of ``jit``, in Python calls; and that the longer ways round give the same."""

import sys

import jax
import jax.numpy as jnp
import pytest
from jax import lax
from jax_expected import same

import backprobe as bp
from backprobe.backends.jax import private
from backprobe.backends.jax.primitives import tap_p

X, W = jnp.linspace(-1.0, 1.0, 6).reshape(2, 3), jnp.linspace(0.5, 1.5, 9).reshape(3, 3)


def layers(w, x):
    h = x
    for _ in range(8):
        a = jnp.tanh(h @ w)
        h = h + jax.nn.gelu(a) * 0.5
    return (h**2).mean()


def calls(function, *args):
    """The Python calls of a step, after others that filled the caches."""
    count = 0

    def hear(frame, event, arg):
        nonlocal count
        count += event == "call"

    for _ in range(3):
        function(*args)
    before = sys.getprofile()
    sys.setprofile(hear)
    try:
        function(*args)
    finally:
        sys.setprofile(before)
    return count


@pytest.mark.parametrize(("patterns", "most"), [(["h", "w"], 1.6), (["**"], 1.8)], ids=["some", "every"])
def test_a_probe_outside_of_jit_beside_the_gradient_alone(patterns, most):
    probe = bp.probe(layers, patterns, wrt="w")
    bare = calls(jax.value_and_grad(layers), W, X)
    assert calls(probe, W, X) < most * bare


def mixed(x, w):
    def turn(h, _):
        k = jnp.tanh(h @ w)
        return k, k.sum()

    a = x * 2.0
    dead = a.sum() * 3.0
    h, sums = lax.scan(turn, a, None, length=3)
    b = lax.cond(h.sum() > 0, lambda h: jnp.sin(h), lambda h: h**2, h)
    one = b[0]
    v = jax.vmap(lambda row: jnp.dot(row, row))(b).sum()
    return v + sums.sum()


def entries(*args, **options):
    """What each entry of a recording says, and its arrays."""
    rec = bp.probe(mixed, **options)(*args)
    words = [(entry.name, str(entry.status), [edge.name for edge in entry.inputs]) for entry in rec.values()]
    edges = [(edge.partial, edge.contribution) for entry in rec.values() for edge in entry.inputs]
    return words, [entry.grad for entry in rec.values() if entry.status == "ok"], edges


@pytest.mark.parametrize("options", [{}, {"partials": True}], ids=["plain", "partials"])
@pytest.mark.parametrize("jitted", [False, True], ids=["eager", "jit"])
def test_without_the_private_ways_of_jax_everything_is_the_same(monkeypatch, options, jitted):
    def found():
        said = []

        def step(x, w):
            words, *arrays = entries(x, w, **options)
            said.append(words)
            return arrays

        return said, (jax.jit(step) if jitted else step)(X, W)

    (words, arrays), held = found(), private.linear_jaxpr
    monkeypatch.setattr(private, "BACKWARD", None)
    monkeypatch.setattr(private, "linear_jaxpr", lambda derivative, *rest: held(lambda *x: derivative(*x), *rest))
    monkeypatch.delitem(private.LINEARIZATIONS, tap_p)
    again, others = found()
    assert again == words and jax.tree.structure(others) == jax.tree.structure(arrays)
    jax.tree.map(lambda one, other: same(one, other), arrays, others)
