# from: own
# ask: check PROGRAM:loss_of x='[0.5, -1.0]' w='[2.0, 0.3]'
# exit: 1
# says: gated
# never: every derivative is right
import jax
import jax.numpy as jnp


@jax.custom_vjp
def gated(x, w):
    return x * jax.nn.sigmoid(w)


def forward(x, w):
    return gated(x, w), (x, w)


def backward(saved, c):
    x, w = saved
    s = jax.nn.sigmoid(w)
    return c * s, c * x * s


gated.defvjp(forward, backward)


def loss_of(x, w):
    y = gated(x, w)  # <- here
    return jnp.sum(y**2)


if __name__ == "__main__":
    x, w, h = jnp.array([0.5, -1.0]), jnp.array([2.0, 0.3]), jnp.array([1e-2, 0.0])
    print(jax.grad(loss_of, 1)(x, w)[0], (loss_of(x, w + h) - loss_of(x, w - h)) / 2e-2)
