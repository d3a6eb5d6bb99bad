# from: https://github.com/patrick-kidger/diffrax/issues/363
# exit: 0
# never: exactly 0
import jax
import jax.numpy as jnp
from jax.experimental.ode import odeint


def loss_of(until, rate):
    def field(y, t, until, rate):
        return -(rate + jax.nn.relu(t - until)) * y

    path = odeint(field, jnp.array(1.0), jnp.array([0.0, 0.5, 1.0]), until, rate)
    return (path[-1] - 0.2) ** 2


until, rate = jnp.array(2.4), jnp.array(1.0)
for step in range(2):
    by_until, by_rate = jax.grad(loss_of, (0, 1))(until, rate)
    rate = rate - 0.1 * by_rate
