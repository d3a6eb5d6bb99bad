# from: own
# never: detached
# never: stop_gradient
import jax
import jax.numpy as jnp
from jax import lax, random


def path(theta, key):
    def turn(x, key):
        noise = random.normal(key, x.shape)
        x = x + 0.1 * theta * (1.0 - x) + 0.05 * noise
        return x, x

    last, seen = lax.scan(turn, jnp.zeros(3), random.split(key, 5))
    return jnp.mean((last - 0.5) ** 2) + 0.1 * jnp.mean(seen**2)


theta = jnp.array(0.7)
for step in range(3):
    loss, gradient = jax.value_and_grad(path)(theta, random.key(step))
    theta = theta - 0.5 * gradient
    print(step, float(loss), float(gradient))
