"""One call of a Keras model, as a guard keeps it: its arguments, its initial state, and how to repeat it.

The gradient function of the call's outputs refers to this object, so the object lives as long as the program's tape.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy
import tensorflow as tf

from backprobe.backends.guarding import counted
from backprobe.backends.guards import EVERYTHING, Found, NotTheSame, PassedCall
from backprobe.backends.random_states import OF_PYTHON, RandomNumbers
from backprobe.backends.tensorflow import private
from backprobe.backends.tensorflow.arrays import TensorflowArrays
from backprobe.backends.tensorflow.model_plans import structure_of
from backprobe.backends.tensorflow.operation_log import hearing_draws
from backprobe.backends.tensorflow.tensors import is_differentiable, is_eager, read, variable_of
from backprobe.record.containers import leaves, refilled
from backprobe.record.names import quote
from backprobe.record.reasons import Reason

ARRAYS = TensorflowArrays()


class CallState:
    """The state from which a call starts besides its arguments: the values of all Variables, and random numbers."""

    def __init__(self, module: Any) -> None:
        self.random = RandomNumbers([*OF_PYTHON, private.operation_seeds()])
        self.values = [(variable, private.unrecorded(read, variable)) for variable in variables(module)]

    def restore(self) -> None:
        """Restore this state."""
        self.random.restore()
        for variable, value in self.values:
            private.unrecorded(variable.assign, value)


def variables(module: Any) -> list[Any]:
    """Return all Variables of a layer, including the states of its random generators."""
    held = [variable_of(variable) for variable in module.variables]
    known = {id(one) for one in held}
    others = [variable_of(variable) for _, variable in structure_of(module).variables]
    return [one for one in (*held, *(one for one in others if id(one) not in known)) if one is not None]


def begun_with(gradients: Sequence[Any], outputs: Sequence[Any]) -> Any:
    """Return a scalar 0 whose backward pass starts at these outputs with these gradients."""

    @tf.custom_gradient  # type: ignore[untyped-decorator]  # TensorFlow has no types
    def seed(*tensors: Any) -> Any:
        return tf.zeros(()), lambda _: gradients

    return seed(*outputs)


def is_of_keras(module: Any) -> bool:
    return type(module).__module__.partition(".")[0] == "keras"


def floating(returned: Any) -> dict[str, Any]:
    """Return the floating-point tensors that a call returned, by path."""
    return {path: leaf for path, leaf in leaves(returned) if is_eager(leaf) and is_differentiable(leaf)}


def unfit(named: Mapping[str, Any]) -> Found:
    """Return the counts of NaN and Inf in the tensors that contain them. Tensors with a finite sum are not counted,
    because their numbers are all finite.
    """
    with numpy.errstate(all="ignore"):
        doubted = {name: one for name, one in named.items() if not math.isfinite(float(abs(one.numpy().sum())))}
    return counted(doubted, ARRAYS.nonfinite)


class TensorflowGuardedCall(PassedCall):
    """Implements ``PassedCall`` for TensorFlow."""

    backward = "tape.gradient()"
    see_loss = "bp.explain(bp.probe(f, nonfinite=True)(x)) with a function f that calls the model and returns the loss"

    returned: Mapping[str, Any] = MappingProxyType({})
    """The outputs of the call, by path, if failing steps are captured."""

    left: Mapping[str, Any] = MappingProxyType({})
    """The gradients that a pass returned, by path, if failing steps are captured."""

    floating, unfit, begun_with = staticmethod(floating), staticmethod(unfit), staticmethod(begun_with)

    def __init__(
        self,
        module: Any,
        path: str,
        given: Any,
        is_within: bool,
        came: Callable[[TensorflowGuardedCall, str, Any], None],
    ) -> None:
        self.module, self.path, self.is_within, self.came = module, path, is_within, came
        self.given = refilled(given, lambda leaf: leaf.copy() if isinstance(leaf, numpy.ndarray) else leaf)
        self.state = CallState(module)
        self.has_ended = False
        self.gradients = {}

    @property
    def select(self) -> Sequence[str]:  # type: ignore[override]  # read alone
        """The patterns that select everything except local variables of functions that Keras's own layers call."""
        paths = [path for path, module in structure_of(self.module).modules if is_of_keras(module)]
        scopes = [".".join(map(quote, path.split("."))) if path else "" for path in paths]
        return [*EVERYTHING, *(f"!{scope}/**:*{end}" for scope in scopes for end in ("", "()"))]

    def why_not_again(self) -> Reason | None:
        if self.has_ended and self.is_within:  # the outer layer decides whether this is a training step
            return Reason("called_within")
        known = {id(variable) for variable, _ in self.state.values}
        made = [one for one in variables(self.module) if id(one) not in known and not one.trainable]
        return Reason("variables_made") if made else None

    def arguments(self) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
        args, kwargs = self.given
        return args, kwargs

    @contextmanager
    def restored(self) -> Iterator[None]:
        with hearing_draws() as drawn:
            self.state.restore()
            yield
        if drawn:
            raise NotTheSame(Reason("draws_on", {"operation": drawn[0]}))

    def tied(self, path: str, output: Any) -> Any:
        """Return the output as a new tensor with the same numbers and gradient. When the gradient arrives, this call is
        informed.
        """
        again = private.unrecorded(tf.identity, output)
        vars(again).update(vars(output))  # copy attributes such as Keras's mask
        private.record_operation("Identity", [again], [output], partial(self._come, path))
        return again

    def _come(self, path: str, gradient: Any) -> Any:
        # Called with the gradient of an output, which a tape computes.
        if is_eager(gradient):
            self.came(self, path, gradient)
        return [gradient]
