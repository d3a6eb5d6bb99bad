# from: https://github.com/jax-ml/jax/issues/475
# ask: explain --nonfinite PROGRAM:loss_of likelihoods='[[0.5, 0.5], [0.0, 0.0], [0.2, 0.8]]'
# birth: forward
# name: belief
# operands: 0.0 / 0.0
import jax
import jax.numpy as jnp


def loss_of(likelihoods):
    moves = jnp.array([[0.9, 0.1], [0.2, 0.8]])

    def step(belief, likelihood):
        joint = (belief @ moves) * likelihood
        evidence = jnp.sum(joint)
        belief = joint / evidence  # <- here
        return belief, evidence

    last, evidences = jax.lax.scan(step, jnp.array([0.5, 0.5]), likelihoods)  # <- here
    return jnp.sum(last * jnp.array([1.0, -1.0])) + jnp.sum(evidences)
