# from: https://github.com/google-deepmind/optax/blob/main/examples/gradient_accumulation.ipynb
# truth: healthy: MultiSteps gives updates of 0 but in each third call, on purpose
# kind: healthy
import jax
import jax.numpy as jnp
import optax

x = jax.random.normal(jax.random.key(0), (54, 4))
y = x @ jnp.array([1.0, -2.0, 0.5, 0.0]) + 0.3
params = {"w": jnp.zeros(4), "b": jnp.zeros(())}
opt = optax.MultiSteps(optax.sgd(0.3), every_k_schedule=3)
state = opt.init(params)


@jax.jit
def step(params, state, x, y):
    loss, grads = jax.value_and_grad(lambda p: jnp.mean((x @ p["w"] + p["b"] - y) ** 2))(params)
    updates, state = opt.update(grads, state, params)
    return optax.apply_updates(params, updates), state, loss


for i in range(9):
    params, state, loss = step(params, state, x[i * 6 : i * 6 + 6], y[i * 6 : i * 6 + 6])
    print(i, loss, params["b"])
