# from: https://github.com/patrick-kidger/diffrax/issues/363
# exit: 1
# says: the gradient of .until. is exactly 0
# never: by_rate|.rate. is exactly
import diffrax
import jax
import jax.numpy as jnp


def loss_of(until, rate):
    def field(t, y, args):
        until, rate = args
        k = jnp.where(t <= until, rate, 0.0)  # <- here
        return -k * y

    solution = diffrax.diffeqsolve(
        diffrax.ODETerm(field), diffrax.Euler(), 0.0, 1.0, 0.125, jnp.array(1.0), args=(until, rate), max_steps=8
    )
    return (solution.ys[-1] - 0.2) ** 2


until, rate = jnp.array(0.4), jnp.array(1.0)
for step in range(2):
    by_until, by_rate = jax.grad(loss_of, (0, 1))(until, rate)
    rate = rate - 0.1 * by_rate
print("by the time of the switch:", float(by_until), "by the rate:", float(by_rate))
