# from: own
# never: wrong
# never: got no gradient
import jax
import jax.numpy as jnp


@jax.custom_vjp
def quantized(x):
    return jnp.round(x * 4) / 4


quantized.defvjp(lambda x: (quantized(x), None), lambda _, c: (c,))


def loss_of(w, x):
    return jnp.mean((quantized(w) * x - 1.0) ** 2)


w = jnp.array([0.3, 1.2, -0.7])
for step in range(3):
    loss, gradient = jax.value_and_grad(loss_of)(w, jnp.array([1.0, 2.0, 0.5]))
    w = w - 0.1 * gradient
    print(step, float(loss), gradient)
