# from: own
# truth: healthy: a state goes through a scan, and the last alone counts
# kind: healthy
import jax
import jax.numpy as jnp


def loss(params, sequence, target):
    def step(state, x):
        state = jnp.tanh(params["w"] @ state + params["u"] @ x + params["b"])
        return state, state

    last, _ = jax.lax.scan(step, jnp.zeros(6), sequence)
    return (params["out"] @ last - target) ** 2


keys = jax.random.split(jax.random.PRNGKey(0), 4)
weights = {
    "w": jax.random.normal(keys[0], (6, 6)) * 0.3,
    "u": jax.random.normal(keys[1], (6, 2)),
    "b": jnp.zeros(6),
    "out": jax.random.normal(keys[2], (6,)),
}
PROBED = loss
GIVEN = weights, jax.random.normal(keys[3], (11, 2)), jnp.float32(0.7)
