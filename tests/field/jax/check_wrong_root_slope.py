# from: https://github.com/jax-ml/jax/issues/4802
# ask: check PROGRAM:loss_of x=3.0
# exit: 1
# says: newton_root
# never: every derivative is right
import jax
from jax import lax


@jax.custom_jvp
def newton_root(x):
    return lax.fori_loop(0, 30, lambda _, r: 0.5 * (r + x / r), x)


@newton_root.defjvp
def slope(primals, tangents):
    (x,), (dx,) = primals, tangents
    root = newton_root(x)
    return root, dx / root


def loss_of(x):
    r = newton_root(x)  # <- here
    return r * r * 2


if __name__ == "__main__":
    print(jax.grad(loss_of)(3.0), (loss_of(3.01) - loss_of(2.99)) / 0.02)
