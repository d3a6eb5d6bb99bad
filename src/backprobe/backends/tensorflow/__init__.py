"""TensorFlow: the adapter that the rest of backprobe talks to."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from backprobe.backends.capabilities import Models, ModuleObserver
from backprobe.backends.protocol import Backend, Blocks
from backprobe.backends.tensorflow import errors, graph_targets, layers, refusals
from backprobe.backends.tensorflow.arrays import TensorflowArrays
from backprobe.backends.tensorflow.block import TensorflowBlockTape
from backprobe.backends.tensorflow.recheck import TensorflowRecheck
from backprobe.backends.tensorflow.tape import TensorflowTape

if TYPE_CHECKING:
    from backprobe.backends.tensorflow.models import KerasModelCall


INSTEAD = {
    "second_order": "with tf.GradientTape() as tape: ... around bp.probe(...), and tape.gradient(rec['u'].grad, x)"
}


class KerasModels(Models):
    """Keras's models and layers. Keras is imported when there is one."""

    is_model = staticmethod(layers.is_layer)

    def call(self, model: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> KerasModelCall:
        from backprobe.backends.tensorflow.models import KerasModelCall

        return KerasModelCall(model, args, kwargs)


class TensorflowBlocks(Blocks):
    """Blocks under a gradient tape of ours, which is as long open as the block."""

    tape = TensorflowBlockTape
    refuse = staticmethod(refusals.refuse)

    def observing(self, model: Any, observer: ModuleObserver) -> AbstractContextManager[object]:
        from backprobe.backends.tensorflow import models

        return models.observing(model, observer)


class TensorflowBackend(Backend):
    """TensorFlow's ``Backend``."""

    name = "tensorflow"
    title = "TensorFlow"
    arrays = TensorflowArrays()
    partials = True
    tape = TensorflowTape
    models = KerasModels()
    blocks = TensorflowBlocks()
    graphs = staticmethod(graph_targets.program)
    recheck = TensorflowRecheck
    refuse = staticmethod(refusals.refuse)
    errors = staticmethod(errors.explain)
    instead = INSTEAD


BACKEND: Backend = TensorflowBackend()
