# from: own
# never: frozen
# never: got no gradient
import jax.numpy as jnp
import optax
from flax import nnx

model = nnx.Linear(3, 1, rngs=nnx.Rngs(0))
optimizer = nnx.Optimizer(model, optax.sgd(0.1), wrt=nnx.Param)
x, y = jnp.ones((4, 3)), jnp.zeros((4, 1))


@nnx.jit
def train_step(model, optimizer):
    loss, gradients = nnx.value_and_grad(lambda m: ((m(x) - y) ** 2).mean())(model)
    optimizer.update(model, gradients)
    return loss


for step in range(3):
    print(step, float(train_step(model, optimizer)))
