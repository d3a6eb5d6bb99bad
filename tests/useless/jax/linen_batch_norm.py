# from: https://flax-linen.readthedocs.io/en/latest/guides/training_techniques/batch_norm.html
# truth: healthy: the statistics are a collection of their own and no parameters; dropout has its key
# kind: healthy
import flax.linen as nn
import jax
import jax.numpy as jnp
import optax


class Mlp(nn.Module):
    @nn.compact
    def __call__(self, x, train):
        x = nn.Dense(16, use_bias=False)(x)
        x = nn.relu(nn.BatchNorm(use_running_average=not train)(x))
        x = nn.Dropout(0.2, deterministic=not train)(x)
        return nn.Dense(1)(x)


x = jax.random.normal(jax.random.key(0), (40, 5))
y = jnp.abs(x[:, :1])
mlp = Mlp()
variables = mlp.init(jax.random.key(1), x, train=False)
params, stats = variables["params"], variables["batch_stats"]
tx = optax.adam(0.01)
state = tx.init(params)
for step in range(4):

    def loss_fn(params, stats=stats, step=step):
        out, new = mlp.apply(
            {"params": params, "batch_stats": stats},
            x,
            train=True,
            mutable=["batch_stats"],
            rngs={"dropout": jax.random.key(step)},
        )
        return jnp.mean((out - y) ** 2), new["batch_stats"]

    (loss, stats), grads = jax.value_and_grad(loss_fn, has_aux=True)(params)
    updates, state = tx.update(grads, state)
    params = optax.apply_updates(params, updates)
    print(step, loss)
