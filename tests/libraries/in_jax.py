"""What programs of JAX are compared with, gradients that JAX itself gives; and trainings in a jitted step."""

import jax
import jax.numpy as jnp


def by(function, *args):
    """The gradients with respect to the arguments that hold floating-point numbers alone, by the names of these."""
    floating = [
        at for at, one in enumerate(args) if all(jnp.issubdtype(x.dtype, jnp.floating) for x in jax.tree.leaves(one))
    ]
    found = {}
    for at, gradient in zip(floating, jax.grad(function, tuple(floating))(*args), strict=True):
        for path, leaf in jax.tree.leaves_with_path(gradient):
            found[".".join([function.__code__.co_varnames[at], *map(_key, path)])] = leaf
    return found


def _key(key):
    name = str(next(getattr(key, part) for part in ("key", "idx", "name") if hasattr(key, part)))
    return f"`{name}`" if any(mark in name for mark in ":#/*!.[") else name


def descending(loss, params, batches, rate=0.05):
    """A program as `asks` has them: a step for each batch, which is the tuple of what follows the parameters."""

    def training(around):
        given, losses = params, []
        with around(loss) as run:
            value_and_grad = jax.value_and_grad(loss) if run is None else run.value_and_grad

            @jax.jit
            def step(given, *batch):
                value, grads = value_and_grad(given, *batch)
                return value, jax.tree.map(lambda p, g: p - rate * g, given, grads)

            for batch in batches:
                value, given = step(given, *batch)
                if run is not None:
                    value, stats = value
                    run.record(stats)
                losses.append(value)
        return run, jnp.stack(losses), jax.tree.leaves(given)

    return training
