# from: own
# exit: 1
# says: log_var
import jax
import jax.numpy as jnp


def loss_of(params, x):
    mean, log_var = x @ params["mean"], x @ params["log_var"]
    reconstruction = jnp.mean((mean @ params["decoder"] - x) ** 2)
    kl = 0.5 * jnp.mean(mean**2 + jnp.exp(log_var) - 1 - log_var)
    total = reconstruction + 0.1 * kl
    return reconstruction, {"kl": kl, "total": total}


params = {"mean": jnp.ones((4, 2)) * 0.1, "log_var": jnp.ones((4, 2)) * 0.1, "decoder": jnp.ones((2, 4)) * 0.2}
for step in range(2):
    gradients, aux = jax.grad(loss_of, has_aux=True)(params, jnp.arange(12.0).reshape(3, 4) / 12)
    params = {name: params[name] - 0.1 * gradients[name] for name in params}
print({name: float(jnp.abs(g).max()) for name, g in gradients.items()})
