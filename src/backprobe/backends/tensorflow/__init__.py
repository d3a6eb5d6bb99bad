"""TensorFlow: the adapter that the rest of backprobe talks to."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, NoReturn

from backprobe.backends.facts import Options
from backprobe.backends.protocol import ModuleObserver
from backprobe.backends.tensorflow import graph_targets, layers, refusals
from backprobe.backends.tensorflow.block import OpenTape
from backprobe.backends.tensorflow.recheck import TensorflowCalls
from backprobe.backends.tensorflow.tape import TensorflowTape
from backprobe.backends.tensorflow.tensors import TensorflowArrays
from backprobe.errors import StrategyRefused, Unsupported

if TYPE_CHECKING:
    from backprobe.backends.tensorflow.graph_mode import GraphProgram
    from backprobe.backends.tensorflow.models import KerasModelCall

NO_GRADIENT = "no entry for"


class TensorflowBackend(TensorflowArrays):
    """TensorFlow's ``Backend``."""

    def buffers(self, model: Any) -> Mapping[str, Any]:
        return {}  # a model's state has entries, as its parameters do

    def is_model(self, value: Any) -> bool:
        return layers.is_layer(value)

    def open(self, options: Options) -> TensorflowTape:
        _refuse_options(options)
        return TensorflowTape(options)

    def open_block(self, options: Options) -> OpenTape:
        _refuse_options(options)
        return OpenTape(options)

    def calls(self) -> TensorflowCalls:
        return TensorflowCalls()

    def refuse(self, target: Any, asked: str) -> None:
        refusals.refuse(target, asked)
        graph_targets.refuse_context(target, asked)

    def refuse_in_block(self, target: Any, asked: str) -> None:
        self.refuse(target, asked)

    def observing(self, model: Any, observer: ModuleObserver) -> AbstractContextManager[object]:
        from backprobe.backends.tensorflow import models

        return models.observing(model, observer)

    def second(self, value: Any, gradient: Any, vector: Any) -> Any:
        return None

    def program(self, target: Any, session: Any) -> GraphProgram | None:
        return graph_targets.program(target, session)

    def failure(self, error: BaseException, tape: object, captures: object) -> None:
        return None

    def graph_facts(self, output: object, tensor: object) -> NoReturn:
        raise Unsupported(
            "nothing can be told of a tensor alone", asked="bp.explain(loss, tensor)", found='TensorFlow',
            why="a tensor of TensorFlow does not know its tape",
            next="rec = bp.probe(f)(x), with what computes the loss in a function f, and bp.explain(rec, 'u')",
        )  # fmt: skip

    def explain_error(self, error: BaseException) -> str | None:
        if isinstance(error, LookupError) and NO_GRADIENT in str(error):
            return (
                "backprobe: an operation on the way to the output has no derivative in TensorFlow; "
                "tf.stop_gradient on what goes into it leaves it out"
            )
        return None

    def call(self, model: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> KerasModelCall:
        from backprobe.backends.tensorflow.models import KerasModelCall  # which imports Keras, when there is a model

        return KerasModelCall(model, args, kwargs)


def _refuse_options(options: Options) -> None:
    if options.strategy != "edges":
        raise StrategyRefused(
            f"the strategy {options.strategy!r} is PyTorch's", asked=f"strategy={options.strategy!r}",
            found="TensorFlow", why="a gradient tape gives all gradients in one way, and keeps none on tensors",
            next='strategy="edges"',
        )  # fmt: skip
    if options.create_graph:
        raise Unsupported(
            "gradients of TensorFlow are not differentiated again", asked="create_graph=True", found="TensorFlow",
            why="the tape that made them is gone",
            next="with tf.GradientTape() as tape: ... around bp.probe(...), and tape.gradient(rec['u'].grad, x)",
        )  # fmt: skip


BACKEND = TensorflowBackend()
