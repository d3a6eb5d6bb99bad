"""TensorFlow: the adapter that the rest of backprobe talks to."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from backprobe.backends.capabilities import Models, ModuleObserver, Program
from backprobe.backends.facts import Options
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

    def is_model(self, value: Any) -> bool:
        return layers.is_layer(value)

    def call(self, model: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> KerasModelCall:
        from backprobe.backends.tensorflow.models import KerasModelCall

        return KerasModelCall(model, args, kwargs)


class TensorflowBlocks(Blocks):
    """Blocks under a gradient tape of ours, which is as long open as the block."""

    def tape(self, options: Options) -> TensorflowBlockTape:
        return TensorflowBlockTape(options)

    def refuse(self, target: Any, asked: str) -> None:
        _refuse(target, asked)

    def observing(self, model: Any, observer: ModuleObserver) -> AbstractContextManager[object]:
        from backprobe.backends.tensorflow import models

        return models.observing(model, observer)


class TensorflowBackend(Backend):
    """TensorFlow's ``Backend``."""

    name = "tensorflow"
    title = "TensorFlow"
    arrays = TensorflowArrays()
    partials = True
    models = KerasModels()
    blocks = TensorflowBlocks()
    instead = INSTEAD

    def tape(self, options: Options) -> TensorflowTape:
        return TensorflowTape(options)

    def refuse(self, target: Any, asked: str) -> None:
        _refuse(target, asked)

    def graphs(self, target: Any, session: Any) -> Program | None:
        return graph_targets.program(target, session)

    def recheck(self) -> TensorflowRecheck:
        return TensorflowRecheck()

    def errors(self, error: BaseException, tape: object, captures: object) -> str | None:
        return errors.explain(error)


def _refuse(target: Any, asked: str) -> None:
    refusals.refuse(target, asked)
    graph_targets.refuse_context(target, asked)


BACKEND: Backend = TensorflowBackend()
