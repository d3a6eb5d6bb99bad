# from: own
# exit: 1
# says: exactly (0|zero)|zero
# never: all .{0,20} got a gradient
import jax
import jax.numpy as jnp


def loss_of(table, ids):
    logits = table[ids[:-1]]
    each = -jax.nn.log_softmax(logits)[jnp.arange(len(ids) - 1), ids[1:]]
    padding = (ids[1:] == 0).astype(jnp.float32)
    return jnp.sum(each * padding) / jnp.maximum(padding.sum(), 1.0)


table = jnp.eye(5) * 0.3
for step in range(2):
    gradient = jax.grad(loss_of)(table, jnp.array([1, 3, 2, 4, 1]))
    table = table - gradient
print(float(jnp.abs(gradient).max()))
