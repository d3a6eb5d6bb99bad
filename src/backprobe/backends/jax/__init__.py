"""The JAX backend: the adapter through which the rest of backprobe uses JAX."""

from __future__ import annotations

from backprobe.backends.captures import Captures
from backprobe.backends.jax import calls, errors, private, refusals
from backprobe.backends.jax.arrays import JaxArrays
from backprobe.backends.jax.bridging import bridged
from backprobe.backends.jax.edits import EDITS
from backprobe.backends.jax.guarding import JaxGuards
from backprobe.backends.jax.heard_births import hearing_births
from backprobe.backends.jax.memory import JaxMemory
from backprobe.backends.jax.models import JaxModels
from backprobe.backends.jax.recheck import JaxRecheck
from backprobe.backends.jax.second_order import hessian
from backprobe.backends.jax.state import JaxState
from backprobe.backends.jax.tape import JaxTape
from backprobe.backends.jax.trials import JaxTrials
from backprobe.backends.jax.uncompiled import uncompiled
from backprobe.backends.jax.useless_in_call import of_call
from backprobe.backends.jax.variations import JaxVariations
from backprobe.backends.jax.vectorized import JaxVectorized
from backprobe.backends.jax.watching import JaxWatches
from backprobe.backends.protocol import Backend

INSTEAD = {
    "second_order": "jax.grad(lambda x: bp.probe(f)(x)['u'].grad.sum())(x)",
    "watches": "with bp.watch_function(loss_fn, folder) as run:, with a function of parameters that returns the loss",
}


class JaxBackend(Backend):
    """Implements ``Backend`` for JAX."""

    name = "jax"
    title = "JAX"
    edits = EDITS
    arrays = JaxArrays()
    partials = True
    tape = JaxTape
    made = staticmethod(calls.is_made)
    models = JaxModels()
    guards = JaxGuards()
    function_watches = JaxWatches()
    memory = JaxMemory
    hear_births = staticmethod(hearing_births)
    uncompiled = staticmethod(uncompiled)
    checks_compiled = True
    recheck = JaxRecheck
    state = JaxState
    trials = JaxTrials
    variations = JaxVariations
    vectorized = JaxVectorized()
    hessian = staticmethod(hessian)
    bridged = staticmethod(bridged)
    useless_in_call = staticmethod(of_call)
    refuse = staticmethod(refusals.refuse)
    refuse_argument = staticmethod(refusals.refuse_argument)
    traced_line = staticmethod(errors.traced_line)
    derivatives = private.DERIVATIVES
    instead = INSTEAD

    @property
    def captures(self) -> Captures:
        from backprobe.backends.jax.captured_calls import JaxCaptures

        return JaxCaptures()


BACKEND: Backend = JaxBackend()
