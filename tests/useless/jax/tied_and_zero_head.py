# from: own
# truth: healthy: the head begins at zero, so that the body has a gradient of 0 in the first step only; float64
# kind: healthy
import jax
import jax.numpy as jnp

jax.config.update("jax_enable_x64", True)


def forward(params, x):
    h = jax.nn.gelu(x @ params["body"])
    h = h + jax.nn.gelu(h @ params["tied"]) @ params["tied"].T
    return h @ params["head"]


@jax.jit
def step(params, x, y):
    loss, grads = jax.value_and_grad(lambda p: jnp.mean(cross_entropy(forward(p, x), y)))(params)
    return jax.tree.map(lambda p, g: p - 0.3 * g, params, grads), loss


def cross_entropy(logits, y):
    return jax.scipy.special.logsumexp(logits, 1) - jnp.take_along_axis(logits, y[:, None], 1)[:, 0]


k1, k2, k3 = jax.random.split(jax.random.key(0), 3)
params = {"body": 0.4 * jax.random.normal(k1, (5, 12)), "tied": 0.2 * jax.random.normal(k2, (12, 6))}
params["head"] = jnp.zeros((12, 3))
x = jax.random.normal(k3, (48, 5))
y = jnp.argmax(x[:, :3], 1)
for epoch in range(5):
    params, loss = step(params, x, y)
    print(epoch, loss)
