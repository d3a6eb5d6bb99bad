# from: https://github.com/patrick-kidger/diffrax/issues/363
# exit: 1
# says: the gradient of .until. is exactly 0: every path
# says: derivative of 0: le
# says: ; the gradient of .until. is exactly 0
# never: missing|.rate. is exactly
import jax
import jax.numpy as jnp
from jax.experimental.ode import odeint


def loss_of(until, rate):
    def field(y, t, until, rate):
        return -jnp.where(t <= until, rate, 0.0) * y  # <- here

    path = odeint(field, jnp.array(1.0), jnp.array([0.0, 0.5, 1.0]), until, rate)
    return (path[-1] - 0.2) ** 2


until, rate = jnp.array(0.4), jnp.array(1.0)
for step in range(2):
    by_until, by_rate = jax.grad(loss_of, (0, 1))(until, rate)
    rate = rate - 0.1 * by_rate
