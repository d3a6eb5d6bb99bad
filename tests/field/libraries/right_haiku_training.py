# from: https://github.com/google-deepmind/dm-haiku/issues/72
# never: got no gradient
# never: detached
import haiku as hk
import jax
import jax.numpy as jnp


def network(x):
    h = jax.nn.relu(hk.Linear(8)(x))
    return hk.Linear(1)(h)


model = hk.without_apply_rng(hk.transform(network))
x, y = jnp.arange(12.0).reshape(4, 3) / 12, jnp.ones((4, 1))
params = model.init(jax.random.PRNGKey(0), x)


def loss_of(params, x, y):
    return jnp.mean((model.apply(params, x) - y) ** 2)


for step in range(3):
    loss, gradients = jax.value_and_grad(loss_of)(params, x, y)
    params = jax.tree.map(lambda p, g: p - 0.1 * g, params, gradients)
    print(step, float(loss))
