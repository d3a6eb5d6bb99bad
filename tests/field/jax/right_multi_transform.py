# from: https://github.com/google-deepmind/optax/issues/477
# exit: 0
# never: got no gradient|useless|exactly 0|stop_gradient|never change
"""The encoder is frozen by the optimizer alone: its gradients are there, and are set to zero on purpose."""

import jax
import jax.numpy as jnp
import optax
from flax import linen as nn
from flax import traverse_util


class Net(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = nn.tanh(nn.Dense(6, name="encoder")(x))
        return nn.Dense(1, name="head")(x)


net = Net()
x = jax.random.normal(jax.random.key(0), (16, 3))
y = x.sum(1, keepdims=True)
params = net.init(jax.random.key(1), x)["params"]
labels = traverse_util.path_aware_map(lambda path, _: "frozen" if "encoder" in path else "trained", params)
tx = optax.multi_transform({"trained": optax.adam(1e-2), "frozen": optax.set_to_zero()}, labels)
state = tx.init(params)


@jax.jit
def step(params, state):
    loss, gradients = jax.value_and_grad(lambda p: jnp.mean((net.apply({"params": p}, x) - y) ** 2))(params)
    updates, state = tx.update(gradients, state, params)
    return optax.apply_updates(params, updates), state, loss


for turn in range(3):
    params, state, loss = step(params, state)
    print(float(loss))
