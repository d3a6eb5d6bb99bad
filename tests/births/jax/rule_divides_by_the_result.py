# from: https://docs.jax.dev/en/latest/notebooks/Custom_derivative_rules_for_Python_code.html
# ask: explain --nonfinite PROGRAM:loss_of x='[4.0, 0.0]'
# birth: backward
# name: x
# operands: 0.0
import jax
import jax.numpy as jnp


@jax.custom_vjp
def root(x):
    return x**0.5


def forward(x):
    y = root(x)
    return y, y


def backward(y, g):
    slope = 0.5 / y  # <- here
    return (g * slope,)


root.defvjp(forward, backward)


def loss_of(x):
    h = root(x)  # <- here
    return jnp.sum(h)
