# from: https://github.com/jax-ml/jax/blob/main/examples/mnist_vae.py
# truth: healthy: a sample of the posterior minus its divergence; the parts do not cancel
# kind: healthy
import jax
import jax.numpy as jnp
import optax


def dense(p, x):
    return x @ p["w"] + p["b"]


def init(key, m, n):
    return {"w": 0.3 * jax.random.normal(key, (m, n)), "b": jnp.zeros(n)}


def negative_elbo(params, key, x):
    h = jax.nn.relu(dense(params["enc"], x))
    mu, variance = dense(params["mu"], h), jax.nn.softplus(dense(params["var"], h))
    z = mu + jnp.sqrt(variance) * jax.random.normal(key, mu.shape)
    logits = dense(params["out"], jax.nn.relu(dense(params["dec"], z)))
    log_p = -jnp.sum(jnp.logaddexp(0.0, jnp.where(x, -1.0, 1.0) * logits))
    kl = -0.5 * jnp.sum(1.0 + jnp.log(variance) - mu**2.0 - variance)
    return (kl - log_p) / len(x)


keys = jax.random.split(jax.random.key(0), 6)
shapes = {"enc": (12, 16), "mu": (16, 2), "var": (16, 2), "dec": (2, 16), "out": (16, 12)}
params = {name: init(k, *shape) for k, (name, shape) in zip(keys, shapes.items())}
x = jax.random.uniform(keys[5], (40, 12)) < jnp.linspace(0, 1, 12)
opt = optax.adam(5e-3)
state = opt.init(params)
for step in range(4):
    value, grads = jax.value_and_grad(negative_elbo)(params, jax.random.key(step), x)
    updates, state = opt.update(grads, state)
    params = optax.apply_updates(params, updates)
    print(step, value)
