# from: own
# truth: the share of right answers is made of comparisons, which are flat: each gradient is 0
# kind: every zero
# names: accuracy right
import jax
import jax.numpy as jnp


def forward(params, x):
    hidden = jnp.tanh(x @ params["w1"] + params["b1"])
    return hidden @ params["w2"] + params["b2"]


def loss_fn(params, x, y):
    logits = forward(params, x)
    threshold = jnp.take_along_axis(logits, y[:, None], 1)
    right = (logits <= threshold).all(1).astype(jnp.float32)  # <- here
    accuracy = right.mean()
    return 1.0 - accuracy


k1, k2, k3 = jax.random.split(jax.random.key(3), 3)
params = {
    "w1": jax.random.normal(k1, (4, 10)) * 0.5,
    "b1": jnp.zeros(10),
    "w2": jax.random.normal(k2, (10, 3)) * 0.3,
    "b2": jnp.zeros(3),
}
x = jax.random.normal(k3, (60, 4))
y = jnp.argmax(x[:, :3], axis=1)
step = jax.jit(jax.value_and_grad(loss_fn))
for epoch in range(4):
    loss, grads = step(params, x, y)
    params = jax.tree.map(lambda p, g: p - 0.5 * g, params, grads)
    print(epoch, loss)
