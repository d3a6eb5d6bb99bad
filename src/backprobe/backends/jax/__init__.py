"""JAX: the adapter that the rest of backprobe talks to."""

from __future__ import annotations

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
    tape = JaxTape
    models = JaxModels()
    recheck = JaxRecheck
    refuse = staticmethod(refusals.refuse)
    errors = staticmethod(errors.explain)
    instead = INSTEAD


BACKEND: Backend = JaxBackend()
