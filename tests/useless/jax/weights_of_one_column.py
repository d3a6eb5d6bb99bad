# from: own
# truth: the weights have one column and are divided by the sum of that column's row, which makes each of them 1
# kind: cancels
# names: score
import flax.linen as nn
import jax
import jax.numpy as jnp
import optax


class Pooled(nn.Module):
    @nn.compact
    def __call__(self, x):
        features = nn.tanh(nn.Dense(8, name="features")(x))
        weights = nn.softplus(nn.Dense(1, name="score")(x))
        weights = weights / weights.sum(-1, keepdims=True)  # <- here
        return nn.Dense(1, name="out")((weights * features).mean(1))


x = jax.random.normal(jax.random.key(0), (20, 5, 4))
y = x[..., 0].max(1, keepdims=True)
model = Pooled()
params = model.init(jax.random.key(1), x)
tx = optax.sgd(0.05)
opt_state = tx.init(params)


def loss_fn(params):
    return jnp.mean((model.apply(params, x) - y) ** 2)


for step in range(4):
    loss, grads = jax.value_and_grad(loss_fn)(params)
    updates, opt_state = tx.update(grads, opt_state)
    params = optax.apply_updates(params, updates)
    print(step, loss)
