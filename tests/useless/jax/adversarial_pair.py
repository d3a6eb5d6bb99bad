# from: https://github.com/patrick-kidger/equinox/blob/main/docs/examples/deep_convolutional_gan.ipynb
# truth: healthy: two networks, each with its own gradient and optimizer
# kind: healthy
import equinox as eqx
import jax
import jax.numpy as jnp
import optax

generator = eqx.nn.MLP(2, 4, 16, 1, key=jax.random.key(0))
judge = eqx.nn.MLP(4, "scalar", 16, 1, activation=lambda x: jax.nn.leaky_relu(x, 0.2), key=jax.random.key(1))
opt_g, opt_d = optax.adam(2e-3, b1=0.5), optax.adam(2e-3, b1=0.5)
state_g, state_d = (o.init(eqx.filter(m, eqx.is_inexact_array)) for o, m in ((opt_g, generator), (opt_d, judge)))


@eqx.filter_value_and_grad
def loss_d(judge, generator, real, z):
    on_real, on_fake = jax.vmap(judge)(real), jax.vmap(judge)(jax.vmap(generator)(z))
    return jnp.mean(jax.nn.softplus(-on_real)) + jnp.mean(jax.nn.softplus(on_fake))


@eqx.filter_value_and_grad
def loss_g(generator, judge, z):
    return jnp.mean(jax.nn.softplus(-jax.vmap(judge)(jax.vmap(generator)(z))))


for step in range(3):
    k1, k2, k3 = jax.random.split(jax.random.key(10 + step), 3)
    real = jnp.sin(jnp.arange(4) + 3 * jax.random.uniform(k1, (24, 1)))
    d, grads = loss_d(judge, generator, real, jax.random.normal(k2, (24, 2)))
    updates, state_d = opt_d.update(grads, state_d)
    judge = eqx.apply_updates(judge, updates)
    g, grads = loss_g(generator, judge, jax.random.normal(k3, (24, 2)))
    updates, state_g = opt_g.update(grads, state_g)
    generator = eqx.apply_updates(generator, updates)
    print(step, d, g)
