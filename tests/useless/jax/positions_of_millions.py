# from: own
# truth: the positions are in the millions, where float32 has steps of 0.25 and more, and each update is far below that
# kind: step changes nothing
# names: positions
import jax
import jax.numpy as jnp

beacons = jnp.array([[4.0e6, 5.2e6], [4.1e6, 5.0e6], [3.9e6, 5.1e6]])
positions = jnp.array([[3.98e6, 5.08e6], [4.05e6, 5.11e6]])
truth = positions + jnp.array([[900.0, -400.0], [250.0, 700.0]])
measured = jnp.linalg.norm(truth[:, None] - beacons[None], axis=-1)


@jax.jit
def misfit(positions):
    distances = jnp.linalg.norm(positions[:, None] - beacons[None], axis=-1)
    return jnp.mean(((distances - measured) / 1000.0) ** 2)


rate = 1.0
for iteration in range(4):
    error, slope = jax.value_and_grad(misfit)(positions)
    positions = positions - rate * slope  # <- here
    print(iteration, error, positions[0])
