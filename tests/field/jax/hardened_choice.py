# from: own
# exit: 1
# says: argmax|one_hot
import jax
import jax.numpy as jnp


def loss_of(router, experts, x):
    logits = x @ router
    chosen = jax.nn.one_hot(jnp.argmax(logits, -1), 2)  # <- here
    y = jnp.einsum("be,eo,bo->b", chosen, experts, x)
    return jnp.mean((y - 1.0) ** 2)


router, experts = jnp.array([[0.2, -0.1], [0.5, 0.3], [0.0, 0.4]]), jnp.ones((2, 3)) * 0.2
x = jnp.arange(12.0).reshape(4, 3) / 12
by_router, by_experts = jax.grad(loss_of, (0, 1))(router, experts, x)
print(float(jnp.abs(by_router).max()), float(jnp.abs(by_experts).max()))
