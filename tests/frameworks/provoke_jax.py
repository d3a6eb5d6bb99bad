"""Numerical bugs in JAX, each with its stable twin."""

import jax
import jax.numpy as jnp

from provoke_case import Case

U, V = [0.3, -0.8, 0.5], [1.0, 0.2, -0.4]
ROWS = [[1.0, 0.5, -0.2], [0.3, -1.0, 0.8]]


def policy_loss(logits, advantages):
    policy = jax.nn.softmax(logits)
    return -jnp.sum(advantages * jnp.log(policy))


def policy_loss_stable(logits, advantages):
    return -jnp.sum(advantages * jax.nn.log_softmax(logits))


def spring_energy(a, b):
    length = jnp.linalg.norm(a - b)
    return (length - 1.0) ** 2


def spring_energy_stable(a, b):
    length = jnp.sqrt(jnp.sum((a - b) ** 2) + 1e-12)
    return (length - 1.0) ** 2


def lens_angle(x):
    return jnp.sum(jnp.arccos(x))


def lens_angle_stable(x):
    return jnp.sum(jnp.arccos(jnp.clip(x, -0.999, 0.999)))


def masked_rate(x):
    return jnp.sum(jnp.where(x > 0, 1 / x, 0.0))


def masked_rate_stable(x):
    safe = jnp.where(x > 0, x, 1.0)
    return jnp.sum(jnp.where(x > 0, 1 / (safe + 1e-3), 0.0))


def hill_curve(dose, slope):
    return jnp.sum(dose**slope / (1 + dose**slope))


def hill_curve_stable(dose, slope):
    return jnp.sum(jax.nn.sigmoid(slope * jnp.log(jnp.abs(dose) + 1e-3)))


CASES = [
    Case("softmax rounds to 0", "jnp.log(policy)", policy_loss, policy_loss_stable, (ROWS, ROWS), (-150.0, 150.0)),
    Case("the derivative of a norm at 0", "jnp.linalg.norm(a - b)", spring_energy, spring_energy_stable, (U, V)),
    Case("beyond the unit circle", "jnp.arccos(x)", lens_angle, lens_angle_stable, (U,), (-1.0, 1.0)),
    Case("the branch that is not taken divides by 0", "1 / x", masked_rate, masked_rate_stable, (V,), (-1.0, 1.0)),
    Case(
        "a power of 0 or less",
        "dose ** slope",
        hill_curve,
        hill_curve_stable,
        ([0.2, 0.5, 1.5], [1.5, 2.5, 0.5]),
        {"dose": (-1.0, 2.0), "slope": (0.5, 3.0)},
    ),
]
