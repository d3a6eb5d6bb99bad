# from: https://github.com/google-deepmind/dm-haiku/issues/78
# ask: python
import haiku as hk
import jax
import jax.numpy as jnp

import backprobe as bp


def forward_of(x):
    hidden = jnp.tanh(hk.Linear(4)(x))
    return hk.Linear(1)(hidden)


model = hk.without_apply_rng(hk.transform(forward_of))
x = jnp.arange(6.0).reshape(2, 3) / 6
params = model.init(jax.random.PRNGKey(0), x)


def loss_of(params, x):
    out = model.apply(params, x)
    return jnp.sum(out**2)


truth = jax.grad(loss_of)(params, x)
rec = bp.probe(loss_of)(params, x)
said = " ".join(map(str, rec.notes))
followed = any("forward_of" in name or "hidden" in name for name in rec)
assert followed or "forward_of" in said or "transform" in said or "apply" in said, (list(rec), said)
assert bp.explain(rec).ok, str(bp.explain(rec))
