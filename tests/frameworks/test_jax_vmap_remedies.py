"""Births of NaN and Inf inside vmap and loops: the reason and the remedy are those of one example, and it cures."""

import jax
import jax.numpy as jnp
import pytest

import backprobe as bp
from remedied import applied, function

IMPORTS = "import jax, jax.numpy as jnp"
ZEROS, ONES, LARGE = jnp.zeros((4, 3)), jnp.ones((4, 3)), jnp.full((4, 3), 300.0)
SOME = jnp.ones((4, 3)).at[2].set(0.0)

PROGRAMS = {
    "a norm": (
        "def f(x):\n    def one(v):\n        n = jnp.linalg.norm(v)\n        return n * 2\n"
        "    return jnp.sum(jax.vmap(one)(x))\n",
        ZEROS,
        "the derivative of norm is 0/0 at 0",
    ),
    "a norm of some": (
        "def f(x):\n    def one(v):\n        n = jnp.linalg.norm(v)\n        return n * 2\n"
        "    return jnp.sum(jax.vmap(one)(x))\n",
        SOME,
        "the derivative of norm is 0/0 at 0",
    ),
    "a deviation": (
        "def f(x):\n    def one(v):\n        s = jnp.std(v)\n        return s * 2\n"
        "    return jnp.sum(jax.vmap(one)(x))\n",
        ONES,
        "the derivative of std is 0/0",
    ),
    "a root of a sum": (
        "def f(x):\n    def one(v):\n        total = jnp.sum(v**2)\n        return jnp.sqrt(total)\n"
        "    return jnp.sum(jax.vmap(one)(x))\n",
        ZEROS,
        "the derivative of sqrt is infinite at 0",
    ),
    "a unit vector": (
        "def f(x):\n    def one(v):\n        u = v / jnp.sqrt(jnp.sum(v * v))\n        return u\n"
        "    return jnp.sum(jax.vmap(one)(x))\n",
        SOME,
        "0/0",
    ),
    "a logarithm of a sum of exponentials": (
        "def f(x):\n    def one(v):\n        top = jnp.log(jnp.sum(jnp.exp(v)))\n        return top * 2\n"
        "    return jnp.sum(jax.vmap(one)(x))\n",
        LARGE,
        "overflow",
    ),
    "a softmax by hand": (
        "def f(x):\n    def one(v):\n        e = jnp.exp(v)\n        return (e / jnp.sum(e))[0]\n"
        "    return jnp.sum(jax.vmap(one)(x))\n",
        LARGE,
        "overflow",
    ),
    "a vmap in a vmap": (
        "def f(x):\n    def one(v):\n        n = jnp.linalg.norm(v)\n        return n\n"
        "    return jnp.sum(jax.vmap(jax.vmap(one))(jnp.stack([x, x])))\n",
        SOME,
        "the derivative of norm is 0/0 at 0",
    ),
    "a norm in a loop": (
        "def f(x):\n    def step(total, v):\n        n = jnp.linalg.norm(v)\n        return total + n, None\n"
        "    total, _ = jax.lax.scan(step, 0.0, x)\n    return total\n",
        SOME,
        "the derivative of norm is 0/0 at 0",
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_remedy_of_a_line_inside_cures(name, tmp_path):
    text, x, reason = PROGRAMS[name]
    before = function(text, tmp_path, IMPORTS)
    assert not jnp.isfinite(before(x)) or not jnp.isfinite(jax.grad(before)(x)).all()
    report = bp.explain(bp.probe(before, nonfinite=True)(x))
    assert reason in str(report), str(report)
    cured = function(applied(text, report), tmp_path, IMPORTS)
    assert jnp.isfinite(cured(x)) and jnp.isfinite(jax.grad(cured)(x)).all(), str(report)


def test_a_product_whose_factors_have_other_shapes_inside(tmp_path):
    text = (
        "def f(x, w):\n    def one(v, s):\n        e = jnp.exp(s)\n        return e * v\n"
        "    return jnp.sum(jax.vmap(one)(x, w))\n"
    )
    rec = bp.probe(function(text, tmp_path, IMPORTS), nonfinite=True)(ONES, jnp.array([1.0, 2.0, 300.0, 4.0]))
    assert "overflow: float32 ends at" in str(bp.explain(rec))
