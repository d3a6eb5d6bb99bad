# from: own
# ask: explain PROGRAM --steps 4
# says: ran 4 steps
import argparse

import jax
import jax.numpy as jnp

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=1)
steps = parser.parse_args().steps


def loss_of(w, x):
    return jnp.mean((x @ w - 1.0) ** 2)


w = jnp.zeros(2)
print("ran", steps, "steps")
for _ in range(steps):
    w = w - 0.1 * jax.grad(loss_of)(w, jnp.array([[1.0, 2.0], [0.5, -1.0]]))
