# from: own
# ask: python
import diffrax
import jax
import jax.numpy as jnp

import backprobe as bp


def field(t, y, args):
    slope = -args * y
    return slope


def final(rate):
    solution = diffrax.diffeqsolve(
        diffrax.ODETerm(field), diffrax.Heun(), t0=0.0, t1=1.0, dt0=0.25, y0=jnp.ones(2), args=rate, max_steps=8
    )
    last = solution.ys[-1]
    return last.sum()


truth = jax.grad(final)(0.5)
rec = bp.probe(final)(0.5)
assert abs(float(rec["rate"].grad - truth)) < 1e-5
said = " ".join(map(str, rec.notes))
assert any("field" in name for name in rec) or "field" in said or "diffeqsolve" in said, (list(rec), said)
wrong = {name: entry.reason for name, entry in rec.items() if str(entry.status) == "detached"}
assert not wrong, wrong
