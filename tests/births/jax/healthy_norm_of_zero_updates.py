# from: https://optax.readthedocs.io/en/latest/api/utilities.html
# ask: explain --nonfinite
# birth: healthy
import jax
import jax.numpy as jnp
import optax

params = {"used": jnp.array([1.0, 2.0]), "idle": jnp.zeros(3)}
optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(0.1))
state = optimizer.init(params)
for step in range(3):
    loss, gradients = jax.value_and_grad(lambda p: jnp.sum(p["used"] ** 2) + 0.0 * jnp.sum(p["idle"]))(params)
    updates, state = optimizer.update(gradients, state)
    params = optax.apply_updates(params, updates)
