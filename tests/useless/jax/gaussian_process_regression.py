# from: https://github.com/jax-ml/jax/blob/main/examples/gaussian_process_regression.py
# truth: healthy: the covariance maps a kernel over all pairs of points, on purpose
# kind: healthy
import jax
import jax.numpy as jnp


def exp_quadratic(a, b):
    return jnp.exp(-jnp.sum((a - b) ** 2))


def covariance(kernel, xs):
    return jax.vmap(lambda x: jax.vmap(lambda y: kernel(x, y))(xs))(xs)


def negative_marginal(params, x, y):
    noise, scale, length = (jax.nn.softplus(params[name]) for name in ("noise", "amplitude", "lengthscale"))
    y = y - jnp.mean(y)
    train = scale * covariance(exp_quadratic, x / length) + (noise + 1e-3) * jnp.eye(len(x))
    chol = jnp.linalg.cholesky(train)
    alpha = jax.scipy.linalg.cho_solve((chol, True), y)
    return 0.5 * jnp.dot(y, alpha) + jnp.sum(jnp.log(jnp.diag(chol))) + jnp.log(jnp.sqrt(2 * jnp.pi)) * len(x)


x = jnp.linspace(-2, 2, 15)[:, None]
y = jnp.sin(x[:, 0]) + 0.1 * jax.random.normal(jax.random.key(0), (15,))
params = {name: jnp.zeros(()) for name in ("amplitude", "noise", "lengthscale")}
momentum = jax.tree.map(jnp.zeros_like, params)
slope = jax.jit(jax.value_and_grad(negative_marginal))
for i in range(4):
    value, grads = slope(params, x, y)
    momentum = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, momentum, grads)
    params = jax.tree.map(lambda p, m: p - 0.1 * m, params, momentum)
    print(i, value)
