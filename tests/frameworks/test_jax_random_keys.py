"""Random keys are arrays that hold no numbers: the values beside them are recorded all the same, in every later run."""

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest
from flax import nnx
from jax import lax

import backprobe as bp

X = jnp.array([1.0, 2.0])


def with_a_key(x):
    key = jax.random.key(0)
    c = jnp.full(2, 3.0)
    noise = jax.random.normal(key, (2,))
    h = x * c + noise
    return h.sum()


def in_a_loop(x):
    def step(carry, t):
        key, h = carry
        key, own = jax.random.split(key)
        m = jax.random.bernoulli(own, 0.5, (2,)) * 1.0
        u = h * t
        k = u * m
        return (key, h + k), None

    (key, h), none = lax.scan(step, (jax.random.key(1), x), jnp.ones(3))
    return h.sum()


def split_by_vmap(x):
    def one(key, t):
        drawn = jax.random.normal(key)
        v = t * drawn
        return v

    return jax.vmap(one)(jax.random.split(jax.random.key(2), 2), x).sum()


LOCALS = {
    with_a_key: {"x", "c", "noise", "h"},
    in_a_loop: {"/step:t", "/step:u", "/step:m", "/step:k", "h"},
    split_by_vmap: {"/one:t", "/one:drawn", "/one:v"},
}


@pytest.mark.parametrize("program", LOCALS)
@pytest.mark.parametrize("pattern", [None, "**:*"])
def test_values_beside_a_key(program, pattern):
    for _ in range(2):
        rec = bp.probe(program, pattern)(X)
        assert LOCALS[program] <= {name for entry in rec.values() for name in (entry.name, *entry.aliases)}
        assert jnp.allclose(rec["x"].grad, jax.grad(program)(X))


class Dropped(nnx.Module):
    def __init__(self, rngs):
        self.inner, self.drop = nnx.Linear(2, 2, rngs=rngs), nnx.Dropout(0.5, rngs=rngs)

    def __call__(self, x):
        h = self.drop(self.inner(x))
        return h * 2


class Other(eqx.Module):
    w: jax.Array

    def __call__(self, x):
        h = x * self.w
        q = h + 1
        return q * 2


def test_a_model_with_keys_hides_nothing_of_the_next_model():
    every = ["**", ":*", "**:*"]
    bp.probe(Dropped(nnx.Rngs(0)), every, of=lambda y: y.sum())(jnp.ones((3, 2)))
    assert {"h", "q"} <= set(bp.probe(Other(X), every, of=lambda y: y.sum())(X))
