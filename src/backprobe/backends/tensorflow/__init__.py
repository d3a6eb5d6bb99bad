"""The TensorFlow backend: the adapter through which the rest of backprobe uses TensorFlow."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from backprobe.backends.capabilities import Models, ModuleObserver
from backprobe.backends.captures import Captures
from backprobe.backends.facts import Options
from backprobe.backends.guards import BlockGuards, GuardListener, Guards
from backprobe.backends.protocol import Backend, Blocks
from backprobe.backends.tensorflow import errors, graph_targets, layers, refusals
from backprobe.backends.tensorflow.arrays import TensorflowArrays
from backprobe.backends.tensorflow.block import TensorflowBlockTape
from backprobe.backends.tensorflow.bridging import TensorflowBridges, bridged
from backprobe.backends.tensorflow.edits import EDITS
from backprobe.backends.tensorflow.functions import is_made
from backprobe.backends.tensorflow.heard_births import hearing_births
from backprobe.backends.tensorflow.memory import TensorflowMemory
from backprobe.backends.tensorflow.recheck import TensorflowRecheck
from backprobe.backends.tensorflow.second_order import hessian
from backprobe.backends.tensorflow.state import TensorflowState
from backprobe.backends.tensorflow.tape import TensorflowTape
from backprobe.backends.tensorflow.trials import TensorflowTrials
from backprobe.backends.tensorflow.useless import TensorflowUselessGradients
from backprobe.backends.tensorflow.useless.calls import of_call
from backprobe.backends.tensorflow.variations import TensorflowVariations
from backprobe.backends.tensorflow.vectorized import SymbolicTape, TensorflowVectorized
from backprobe.backends.watches import Watches

if TYPE_CHECKING:
    from backprobe.backends.tensorflow.models import KerasModelCall


INSTEAD = {
    "second_order": "with tf.GradientTape() as tape: ... around bp.probe(...), and tape.gradient(rec['u'].grad, x)",
}


class KerasModels(Models):
    """Implements ``Models`` for Keras models and layers. Keras is imported only when the program has one."""

    is_model = staticmethod(layers.is_layer)
    libraries = frozenset({"keras", "tensorflow"})

    def call(self, model: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> KerasModelCall:
        from backprobe.backends.tensorflow.models import KerasModelCall

        return KerasModelCall(model, args, kwargs)

    def parameters(self, model: Any) -> Mapping[str, Any]:
        from backprobe.backends.tensorflow.model_plans import structure_of

        return dict(structure_of(model).variables)


class TensorflowBlocks(Blocks):
    """Implements ``Blocks`` for TensorFlow. A block runs under a gradient tape of backprobe, which is open until the
    block ends.
    """

    tape = TensorflowBlockTape
    takes_gradients = frozenset({"GradientTape", "gradients", "Session", "InteractiveSession", "compute_gradients"})
    refuse = staticmethod(refusals.refuse)

    def observing(self, call: KerasModelCall, observer: ModuleObserver) -> AbstractContextManager[object]:
        from backprobe.backends.tensorflow import models

        return models.observing(call.model, observer)


class TensorflowGuards(Guards):
    """Implements ``Guards`` for TensorFlow. Keras is imported only when one of its models is guarded."""

    @property
    def blocks(self) -> Callable[[], BlockGuards]:  # type: ignore[override]  # read alone
        from backprobe.backends.tensorflow.block_guards import TensorflowBlockGuards

        return TensorflowBlockGuards

    def listening(self, model: Any, listener: GuardListener) -> AbstractContextManager[object]:
        from backprobe.backends.tensorflow.guarding import TensorflowGuarding

        return TensorflowGuarding(model, listener).listening()


@contextmanager
def uncompiled() -> Iterator[None]:
    """Inside this context functions run eagerly, including those of Keras's ``fit``."""
    # TensorFlow warns that tf.data stays compiled
    warnings.filterwarnings("ignore", "Even though the `tf.config", UserWarning)
    before = tf.config.functions_run_eagerly()
    tf.config.run_functions_eagerly(True)
    try:
        yield
    finally:
        tf.config.run_functions_eagerly(before)


class TensorflowBackend(Backend):
    """Implements ``Backend`` for TensorFlow."""

    name = "tensorflow"
    title = "TensorFlow"
    edits = EDITS
    arrays = TensorflowArrays()
    partials = True
    models = KerasModels()
    made = staticmethod(is_made)
    blocks = TensorflowBlocks()
    graphs = staticmethod(graph_targets.program)
    guards = TensorflowGuards()
    memory = TensorflowMemory
    reduced = staticmethod(layers.reduced)
    hear_births = staticmethod(hearing_births)
    uncompiled = staticmethod(uncompiled)
    checks_compiled = True
    recheck = TensorflowRecheck
    state = TensorflowState
    trials = TensorflowTrials
    variations = TensorflowVariations
    vectorized = TensorflowVectorized()
    hessian = staticmethod(hessian)
    bridged = staticmethod(bridged)
    bridges = TensorflowBridges
    useless = TensorflowUselessGradients
    useless_in_call = staticmethod(of_call)
    refuse = staticmethod(refusals.refuse)
    errors = staticmethod(errors.explain)
    instead = INSTEAD

    def tape(self, options: Options) -> TensorflowTape:
        return TensorflowTape(options) if tf.executing_eagerly() else SymbolicTape(options)

    @cached_property
    def watches(self) -> Watches:
        from backprobe.backends.tensorflow.watching import TensorflowWatches  # imports Keras

        return TensorflowWatches()

    @property
    def captures(self) -> Captures:
        from backprobe.backends.tensorflow.captured_calls import TensorflowCaptures

        return TensorflowCaptures()


BACKEND: Backend = TensorflowBackend()
