# from: https://github.com/patrick-kidger/equinox/blob/main/docs/examples/score_based_diffusion.ipynb
# truth: healthy: a time per sample scales the noise of that sample, weights grow from nearly 0 with the time
# kind: healthy
import equinox as eqx
import jax
import jax.numpy as jnp
import optax

model = eqx.nn.MLP(3, 2, 24, 2, activation=jax.nn.silu, key=jax.random.key(0))


def single(model, point, t, key):
    mean = point * jnp.exp(-0.5 * t)
    std = jnp.sqrt(jnp.maximum(1 - jnp.exp(-t), 1e-5))
    noise = jax.random.normal(key, point.shape)
    predicted = model(jnp.append(mean + std * noise, t))
    return (1 - jnp.exp(-t)) * jnp.mean((predicted + noise / std) ** 2)


@eqx.filter_jit
@eqx.filter_value_and_grad
def loss_fn(model, data, key):
    tkey, nkey = jax.random.split(key)
    t = (jax.random.uniform(tkey, (len(data),), maxval=1 / len(data)) + jnp.arange(len(data)) / len(data)) * 3
    return jnp.mean(jax.vmap(single, (None, 0, 0, 0))(model, data, t, jax.random.split(nkey, len(data))))


angle = jnp.linspace(0, 6.28, 48)
data = jnp.stack([jnp.cos(angle), jnp.sin(angle)], 1)
opt = optax.adabelief(3e-3)
state = opt.init(eqx.filter(model, eqx.is_inexact_array))
for step in range(4):
    loss, grads = loss_fn(model, data, jax.random.key(step))
    updates, state = opt.update(grads, state)
    model = eqx.apply_updates(model, updates)
    print(step, loss)
