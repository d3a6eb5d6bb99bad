# from: https://github.com/google-deepmind/optax/blob/main/examples/adversarial_training.ipynb
# truth: healthy: a sign of a gradient that is already taken moves the inputs, with stop_gradient around it
# kind: healthy
import jax
import jax.numpy as jnp
import optax


def loss_of(params, x, y):
    hidden = jax.nn.relu(x @ params["w1"] + params["b1"])
    logits = hidden @ params["w2"] + params["b2"]
    return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()


def attacked(params, x, y, epsilon=0.1):
    return jax.lax.stop_gradient(jnp.clip(x + epsilon * jnp.sign(jax.grad(loss_of, 1)(params, x, y)), 0.0, 1.0))


k1, k2, k3 = jax.random.split(jax.random.key(0), 3)
params = {"w1": 0.4 * jax.random.normal(k1, (6, 16)), "b1": jnp.zeros(16)}
params |= {"w2": 0.3 * jax.random.normal(k2, (16, 3)), "b2": jnp.zeros(3)}
x = jax.random.uniform(k3, (48, 6))
y = jnp.argmax(x[:, :3], 1)
opt = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(0.01))
state = opt.init(params)
for step in range(4):
    loss, grads = jax.value_and_grad(loss_of)(params, attacked(params, x, y), y)
    updates, state = opt.update(grads, state)
    params = optax.apply_updates(params, updates)
    print(step, loss)
