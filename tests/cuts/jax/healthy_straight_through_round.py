# from: own
# ask: explain
# kind: healthy
import jax
import jax.numpy as jnp


def quantized(x, bits=3):
    low, high = jax.lax.stop_gradient((x.min(), x.max()))
    scale = (high - low) / (2**bits - 1)
    steps = (x - low) / scale
    return low + scale * (steps + jax.lax.stop_gradient(jnp.round(steps) - steps))


def loss_of(params, x, y):
    h = jax.nn.gelu(x @ quantized(params["inner"]))
    return jnp.mean((h @ quantized(params["outer"]) - y) ** 2)


one, two, three, four = jax.random.split(jax.random.key(0), 4)
params = {"inner": jax.random.normal(one, (3, 6)), "outer": jax.random.normal(two, (6, 1))}
x, y = jax.random.normal(three, (9, 3)), jax.random.normal(four, (9, 1))
for step in range(3):
    loss, slopes = jax.value_and_grad(loss_of)(params, x, y)
    params = jax.tree.map(lambda p, g: p - 0.05 * g, params, slopes)
