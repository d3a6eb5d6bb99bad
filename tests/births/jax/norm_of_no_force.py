# from: https://github.com/jax-ml/jax/issues/3058
# ask: explain --nonfinite PROGRAM:loss_of positions='[[1.0, 2.0], [1.0, 2.0]]' rest=0.5
# birth: backward
# name: stretch
# operands: 0.0
import jax.numpy as jnp


def loss_of(positions, rest):
    stretch = positions[0] - positions[1]
    length = jnp.linalg.norm(stretch)  # <- here
    return (length - rest) ** 2
