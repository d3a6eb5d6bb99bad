# from: https://github.com/google/flax/blob/main/examples/ppo/ppo_lib.py
# truth: healthy: part of the ratios is clipped, the advantages are normalised within a batch and differ
# kind: healthy
import flax.linen as nn
import jax
import jax.numpy as jnp
import optax


class ActorCritic(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = nn.relu(nn.Dense(24)(x))
        return nn.log_softmax(nn.Dense(3)(x)), nn.Dense(1)(x)[..., 0]


key = jax.random.key(0)
obs = jax.random.normal(key, (48, 4))
net = ActorCritic()
params = net.init(jax.random.key(1), obs)
log_probs, values = net.apply(params, obs)
actions = jax.random.categorical(jax.random.key(2), log_probs)
old = jnp.take_along_axis(log_probs, actions[:, None], 1)[:, 0]
returns = (actions == jnp.argmax(obs[:, :3], 1)).astype(jnp.float32)
advantages = returns - values
advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)


def loss_fn(params):
    log_probs, values = net.apply(params, obs)
    new = jnp.take_along_axis(log_probs, actions[:, None], 1)[:, 0]
    ratios = jnp.exp(new - old)
    surrogate = jnp.minimum(ratios * advantages, jnp.clip(ratios, 0.9, 1.1) * advantages)
    entropy = jnp.sum(-jnp.exp(log_probs) * log_probs, axis=1).mean()
    return -surrogate.mean() + 0.5 * jnp.mean((returns - values) ** 2) - 0.01 * entropy


tx = optax.adam(0.02)
state = tx.init(params)
for epoch in range(4):
    loss, grads = jax.value_and_grad(loss_fn)(params)
    updates, state = tx.update(grads, state)
    params = optax.apply_updates(params, updates)
    print(epoch, loss)
