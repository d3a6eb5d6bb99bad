# from: https://github.com/patrick-kidger/diffrax/issues/511
# never: detached
# never: got no gradient
import diffrax
import jax
import jax.numpy as jnp


def field(t, y, args):
    return -args * y


def loss_of(rate, y0):
    solution = diffrax.diffeqsolve(
        diffrax.ODETerm(field), diffrax.Euler(), t0=0.0, t1=1.0, dt0=0.25, y0=y0, args=rate, max_steps=8
    )
    return jnp.sum((solution.ys[-1] - 0.3) ** 2)


rate = jnp.array(0.5)
for step in range(2):
    loss, gradient = jax.value_and_grad(loss_of)(rate, jnp.array([1.0, 2.0]))
    rate = rate - 0.1 * gradient
    print(step, float(loss), float(gradient))
