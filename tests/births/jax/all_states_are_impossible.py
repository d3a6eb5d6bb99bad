# from: https://docs.jax.dev/en/latest/faq.html
# ask: explain --nonfinite PROGRAM:loss_of scores='[[1.0, 2.0], [3.0, 4.0]]'
# birth: backward
# name: kept
# operands: a row of -inf
# given: forbidden, kept, totals, return
import jax
import jax.numpy as jnp


def loss_of(scores):
    forbidden = jnp.array([[0.0, -jnp.inf], [-jnp.inf, -jnp.inf]])
    kept = scores + forbidden
    totals = jax.nn.logsumexp(kept, axis=1)  # <- here
    return jnp.sum(jnp.where(jnp.isfinite(totals), totals, 0.0))
