# from: own
# ask: explain
# kind: healthy
"""Actions are drawn, and rewards are held fixed: the slope is that of the log-probabilities."""

import jax
import jax.numpy as jnp


def loss_of(logits, rewards, key):
    actions = jax.random.categorical(key, logits)
    log_p = jnp.take_along_axis(jax.nn.log_softmax(logits), actions[:, None], 1)[:, 0]
    won = jnp.take_along_axis(rewards, actions[:, None], 1)[:, 0]
    return -jnp.mean(log_p * jax.lax.stop_gradient(won - won.mean()))


logits, rewards = jnp.zeros((10, 3)), jax.random.uniform(jax.random.key(0), (10, 3))
for step in range(3):
    loss, slope = jax.value_and_grad(loss_of)(logits, rewards, jax.random.key(step))
    logits = logits - 0.5 * slope
