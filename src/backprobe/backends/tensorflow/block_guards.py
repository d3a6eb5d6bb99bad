"""Guards of blocks in TensorFlow: gradients that the program's tapes return, and scaled losses."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import tensorflow as tf

from backprobe.backends.guarding import part_ended
from backprobe.backends.guards import BlockGuards, Over
from backprobe.backends.patching import listening
from backprobe.backends.tensorflow.block import TensorflowBlockTape
from backprobe.backends.tensorflow.capture import Capture
from backprobe.backends.tensorflow.guarded_calls import unfit
from backprobe.backends.tensorflow.tensors import identity, is_differentiable, is_eager, numbers_of

SCALED = 64  # the most scaled losses that are remembered


class ScaledLosses:
    """Losses that a ``LossScaleOptimizer`` scaled by more than 1. Such an optimizer handles an overflow itself."""

    def __init__(self) -> None:
        self.known: deque[int] = deque(maxlen=SCALED)

    def listening(self) -> AbstractContextManager[None]:
        keras = sys.modules.get("keras")
        if keras is None:
            return nullcontext()
        return listening(keras.optimizers.LossScaleOptimizer, "scale_loss", self._scaled)

    def _scaled(self, following: Callable[..., Any], optimizer: Any, /, *args: Any, **kwargs: Any) -> Any:
        scaled = following(optimizer, *args, **kwargs)
        if is_eager(scaled) and optimizer.built and float(optimizer.dynamic_scale) > 1:
            self.known.append(identity(scaled))
        return scaled

    def any_of(self, targets: Any) -> bool:
        return any(identity(one) in self.known for one in tf.nest.flatten(targets) if is_eager(one))


class TensorflowBlockGuards(BlockGuards):
    """Implements ``BlockGuards`` for TensorFlow."""

    backward = "tape.gradient()"
    see_compiled = "tf.config.run_functions_eagerly(True), or model.compile(..., run_eagerly=True)"

    def __init__(self) -> None:
        self.scaled = ScaledLosses()

    def scaling(self, scaled: Callable[[Callable[[], bool]], None]) -> AbstractContextManager[object]:
        return self.scaled.listening()

    def hear(self, tape: TensorflowBlockTape, over: Over) -> None:
        def heard(targets: Sequence[Any], gradients: Any) -> None:
            part_ended(_numbered(targets), _numbered(gradients), unfit, partial(self.scaled.any_of, targets), over)

        tape.heard = heard

    def needed(self, tape: TensorflowBlockTape, captures: Sequence[Capture], tensors: Sequence[Any]) -> int:
        known = tape.log.before(identity(one) for one in tensors if is_eager(one))
        return sum(one.number in known for one in captures)


def _numbered(tensors: Any) -> dict[str, Any]:
    numbers = [numbers_of(one) for one in flat(tensors)]
    found = [one for one in numbers if is_eager(one) and is_differentiable(one)]
    return {str(at): one for at, one in enumerate(found)}


def flat(gradients: Any) -> list[Any]:
    """Return the gradients as a flat list, in which sparse gradients stay sparse."""
    return list(tf.nest.flatten(gradients, expand_composites=False))
