"""Programs that run uncompiled: the program's own loops run in Python, and JAX's own loops do not."""

import os
import sys

import jax
import jax.numpy as jnp
import pytest
from jax import lax

from backprobe.backends.jax.uncompiled import uncompiled

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
