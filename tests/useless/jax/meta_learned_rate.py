# from: https://github.com/google-deepmind/optax/blob/main/examples/meta_learning.ipynb
# truth: healthy: the outer loss goes through inner steps to the learning rate
# kind: healthy
import jax
import jax.numpy as jnp
import optax

key = jax.random.key(0)
x = jax.random.normal(key, (6, 20))
y = 3.0 * x


def inner_loss(theta, x, y):
    return jnp.mean((theta * x - y) ** 2)


def outer_loss(eta, x, y):
    theta = jnp.array(0.2)
    for i in range(4):
        theta = theta - jax.nn.sigmoid(eta) * jax.grad(inner_loss)(theta, x[i], y[i])
    return inner_loss(theta, x[5], y[5])


eta = jnp.array(-3.0)
opt = optax.adam(0.2)
state = opt.init(eta)
for step in range(5):
    value, slope = jax.value_and_grad(outer_loss)(eta, x, y)
    updates, state = opt.update(slope, state)
    eta = optax.apply_updates(eta, updates)
    print(step, value, eta)
