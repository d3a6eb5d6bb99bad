"""A recording of JAX compared in one line: gradients by name, statuses, axes."""

import jax
import jax.numpy as jnp
import numpy as np

import asked
from asked import says

X, W = jnp.asarray(0.7), jnp.asarray([1.0, 2.0, 3.0])


def grads(rec, **wanted):
    """Is the gradient of each of these names this one, shape and dtype included?"""
    for name, gradient in wanted.items():
        entry = rec[name]
        assert entry.status == "ok", f"{name} is {entry.status}: {entry.reason}"
        same(entry.grad, gradient, name)
        assert entry.grad.shape == entry.value.shape == entry.shape, name
        assert entry.grad.dtype == entry.value.dtype, name


def same(found, wanted, name=""):
    found, wanted = np.asarray(found), np.asarray(wanted)
    assert found.shape == wanted.shape, f"{name} has the shape {found.shape} and not {wanted.shape}"
    assert np.allclose(found, wanted, 2e-5, 2e-5), f"{name} is {found} and not {wanted}"


def as_jax(rec, function, *arguments):
    """The gradients of all arguments are those of ``jax.grad``."""
    names = function.__code__.co_varnames[: len(arguments)]
    every = tuple(range(len(arguments)))
    grads(rec, **dict(zip(names, jax.grad(function, every)(*arguments), strict=True)))


def by_hand(rec, function, **places):
    """The gradients at these names are those of ``function`` with respect to what it takes for each of them."""
    found = jax.grad(function, tuple(range(len(places))))(*places.values())
    grads(rec, **dict(zip(places, found, strict=True)))


class on(asked.on):
    """Makes a test of a JAX program: what these arguments give, the gradients but for rounding."""

    def gives(self, gradients=(), **wanted):
        def test_of(program):
            def test():
                rec = self.record(program)
                grads(rec, **dict(gradients))
                says(rec, **wanted)

            return test

        return test_of


def statuses(rec):
    return {name: str(entry.status) for name, entry in rec.items() if entry.status != "not_tensor"}
