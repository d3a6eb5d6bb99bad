"""JAX: the adapter that the rest of backprobe talks to."""

from __future__ import annotations

from backprobe.backends.facts import Options
from backprobe.backends.jax import errors, refusals
from backprobe.backends.jax.arrays import JaxArrays
from backprobe.backends.jax.models import JaxModels
from backprobe.backends.jax.recheck import JaxRecheck
from backprobe.backends.jax.tape import JaxTape
from backprobe.backends.protocol import Backend

INSTEAD = {"second_order": "jax.grad(lambda x: bp.probe(f)(x)['u'].grad.sum())(x)"}


class JaxBackend(Backend):
    """JAX's ``Backend``."""

    name = "jax"
    title = "JAX"
    arrays = JaxArrays()
    partials = True
    models = JaxModels()
    recheck = JaxRecheck
    refuse = staticmethod(refusals.refuse)
    errors = staticmethod(errors.explain)
    instead = INSTEAD

    def tape(self, options: Options) -> JaxTape:
        return JaxTape(options)


BACKEND: Backend = JaxBackend()
