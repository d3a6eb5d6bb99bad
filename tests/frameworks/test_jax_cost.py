"""The cost of a probe outside of ``jit``, in Python calls; and that the longer ways round give the same."""

import os
import sys

import jax
import jax.numpy as jnp
import pytest
from jax import lax
from jax_expected import same

import backprobe as bp
from backprobe.backends.jax import private
from backprobe.backends.jax.primitives import tap_p
from backprobe.backends.jax.uncompiled import uncompiled

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


# programs that run uncompiled: their own loops run in Python, and JAX's own loops do not

KEY = jax.random.key(0)
RANDOM = os.path.join("jax", "_src", "random")


def entered(call):
    """How many functions that draw random numbers a call enters."""
    count = 0

    def profile(frame, event, arg):
        nonlocal count
        count += event == "call" and RANDOM in frame.f_code.co_filename

    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("draw", [jax.random.gamma, jax.random.loggamma])
def test_samples_are_drawn_in_compiled_loops(draw):
    with uncompiled():
        drawn = draw(KEY, 2.5, (200,))
        few, many = (entered(lambda size=size: draw(KEY, 2.5, (size,))) for size in (20, 200))
    assert 0 < many <= few  # in Python, each sample would call some
    assert jnp.allclose(drawn, draw(KEY, 2.5, (200,)), rtol=1e-5)


def test_samples_have_their_derivatives():
    def loss(shape):
        return jax.random.gamma(KEY, shape, (50,)).sum()

    with uncompiled():
        slope = jax.grad(loss)(2.5)
    assert jnp.allclose(slope, jax.grad(loss)(2.5), rtol=1e-4)


SEEN = []


def seen(x):
    SEEN.append(float(x))  # raises where JAX traces it
    return x * 2.0


LOOPS = {
    "scan": lambda xs: lax.scan(lambda carry, x: (carry + seen(x), x), 0.0, xs)[0],
    "map": lambda xs: lax.map(seen, xs).sum(),
    "while_loop": lambda xs: lax.while_loop(lambda at: at < 3, lambda at: at + (seen(xs[at]) > 0), 0),
    "fori_loop": lambda xs: lax.fori_loop(0, 3, lambda at, total: total + seen(xs[at]), 0.0),
    "a partial": lambda xs: lax.map(jax.tree_util.Partial(seen), xs).sum(),
    "a compiled function": lambda xs: lax.map(jax.jit(seen), xs).sum(),
}


@pytest.mark.parametrize("loop", LOOPS.values(), ids=LOOPS)
def test_loops_over_functions_of_the_program_run_in_python(loop):
    SEEN.clear()
    with uncompiled():
        loop(jnp.arange(1.0, 4.0))
    assert SEEN == [1.0, 2.0, 3.0]


def test_loops_are_put_back():
    before = lax.scan, lax.while_loop
    with uncompiled():
        pass
    assert (lax.scan, lax.while_loop) == before and not jax.config.jax_disable_jit
