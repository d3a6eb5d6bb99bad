"""Bridges in TensorFlow: a custom gradient whose result has the numbers of one argument and the history of both."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from types import FrameType
from typing import Any

import numpy
import tensorflow as tf

from backprobe.backends.bridging import BridgedPass, Bridges, Gates, filled, opened
from backprobe.backends.patching import listening, patched
from backprobe.backends.tensorflow import private, run_once
from backprobe.backends.tensorflow.layers import is_layer
from backprobe.backends.tensorflow.state import has_parts, variables_in
from backprobe.backends.tensorflow.tensors import DIFFERENTIABLE, is_tensor, variable_of
from backprobe.backends.user_lines import users_frames

GATES = Gates()


def _carried(value: Any, source: Any) -> Any:
    def gradients(upstream: Any) -> tuple[Any, Any]:
        if not GATES.is_open:
            return upstream, None
        given = tf.cast(_real(tf.convert_to_tensor(upstream)), tf.float32)
        given = tf.where(tf.math.is_finite(given), given, tf.zeros_like(given))
        total = tf.reduce_sum(given * _factors(given.shape))
        return upstream, tf.cast(_factors(source.shape) * total, source.dtype)

    return tf.identity(value), gradients


_bridge: Callable[[Any, Any], Any] = tf.custom_gradient(_carried)


def bridged(value: Any, source: Any) -> Any | None:
    """Return the value with the history of other values added, or None: see ``Bridges.bridged``."""
    sources = [one for one in opened(source, is_tensor) if _is_differentiable(one)]

    def one(leaf: Any) -> Any | None:
        if not is_tensor(leaf) or variable_of(leaf) is not None or not _is_differentiable(leaf):
            return None
        for each in sources:
            leaf = _bridge(leaf, tf.convert_to_tensor(each))
        return leaf

    return filled(value, one) if sources else None


class TensorflowBridges(Bridges):
    """Implements ``Bridges`` for TensorFlow."""

    def bridged(self, value: Any, source: Any) -> Any | None:
        return None if self.is_off() else bridged(value, source)

    def sources(self, held: Any, *, of_models: bool = True) -> list[Any]:
        found = opened(held, lambda one: is_tensor(one) or has_parts(one))
        every = [
            one for each in found for one in ([each] if is_tensor(each) else variables_in(each) if of_models else ())
        ]
        return [one for one in every if _is_differentiable(one)]

    def connected(self, held: Any) -> list[Any]:
        return [one for one in self.sources(held) if _is_connected(one)]

    def is_off(self) -> bool:
        return not private.could_record()

    def moved(self, value: Any, by: float, undo: list[Callable[[], None]]) -> Any:
        def one(leaf: Any) -> Any | None:
            if has_parts(leaf):
                for variable in filter(_is_differentiable, variables_in(leaf)):
                    before = private.unrecorded(tf.identity, variable)
                    undo.append(partial(_assign, variable, before))
                    _assign(variable, _elsewhere(before, by))
                return None
            if not is_tensor(leaf) or not _is_differentiable(leaf):
                return None
            tensor = tf.convert_to_tensor(leaf)
            return tensor + tf.stop_gradient(_elsewhere(tensor, by) - tensor)

        made = filled(value, one)
        return value if made is None else made

    def shift(self, sources: Sequence[Any], by: float) -> None:
        for variable in [one for one in map(variable_of, sources) if one is not None]:
            _assign(variable, _elsewhere(private.unrecorded(tf.identity, variable), by))

    def kept(self, value: Any) -> Any:
        made = filled(value, lambda leaf: leaf.copy() if isinstance(leaf, numpy.ndarray) else None)
        return value if made is None else made

    def begin(self) -> None:
        tf.config.run_functions_eagerly(False)
        private.names_of_keras()[1](None)

    def part(self, value: Any, name: str) -> Any:
        found = getattr(value, name, None)
        if found is None and is_layer(value):  # a model of no class of its own knows its layers by their names
            found = next((one for one in getattr(value, "layers", ()) if one.name == name), None)
        return found

    @property
    def writers(self) -> Sequence[tuple[Any, str]]:
        return private.writers()

    @contextmanager
    def passes(
        self, heard: Callable[[BridgedPass], None], watched: Callable[[FrameType], Sequence[Any]]
    ) -> Iterator[None]:
        # each request runs twice: with closed bridges for the program, and with open ones for ``heard``
        running: list[Any] = []

        def lasting(following: Callable[..., Any], tape: Any, *args: Any, **kwargs: Any) -> None:
            following(tape, *args, **kwargs)
            tape._persistent = True  # a persistent tape can compute gradients twice

        def asked(
            following: Callable[..., Any], tape: Any, target: Any, sources: Any, *args: Any, **kwargs: Any
        ) -> Any:
            if running:
                return following(tape, target, sources, *args, **kwargs)
            running.append(tape)
            try:
                with GATES.closed():
                    given = following(tape, target, sources, *args, **kwargs)
                bridged = following(tape, target, sources, *args, **kwargs)
            finally:
                running.pop()
            frame = next(users_frames(sys._getframe(1)))
            arrived = [*map(_is_given, tf.nest.flatten(bridged))]
            lacking = [one is None for one in tf.nest.flatten(given)]
            heard(BridgedPass(_number(target), tf.nest.flatten(sources), arrived, lacking, frame))
            return given

        wraps = [(tf.GradientTape, "__init__", lambda following: partial(lasting, following))]
        # give all gradients the shape of their input, because those that come through a bridge are added to them
        hears = run_once.heard(run_once.whole)
        with patched(wraps), hears, listening(tf.GradientTape, "gradient", asked):
            yield


def _is_connected(tensor: Any) -> bool:
    variable = variable_of(tensor)
    return private.is_followed_by_a_tape(tensor) if variable is None else bool(variable.trainable)


def _assign(variable: Any, value: Any) -> None:
    private.unrecorded(variable.assign, value)


def _is_given(gradient: Any) -> bool:
    if gradient is None:
        return False
    return bool(tf.reduce_any(tf.not_equal(tf.convert_to_tensor(gradient), 0)))


def _number(target: Any) -> float | None:
    def total(one: Any) -> Any:
        return tf.reduce_sum(_real(one))

    found = [float(private.unrecorded(total, one)) for one in tf.nest.flatten(target) if is_tensor(one)]
    return sum(found) if found else None


def _is_differentiable(tensor: Any) -> bool:
    return tf.as_dtype(tensor.dtype) in DIFFERENTIABLE


def _elsewhere(tensor: Any, by: float) -> Any:
    return tf.cast(by, tensor.dtype) * tensor + tf.cast(0.4 * _factors(tensor.shape), tensor.dtype)


def _factors(shape: Any) -> Any:
    # Return positive numbers of this shape, which differ from element to element.
    count = tf.TensorShape(shape).num_elements()
    return tf.reshape(1.5 + tf.cos(tf.range(count, dtype=tf.float32) * 0.7), shape)


def _real(tensor: Any) -> Any:
    return tf.math.real(tensor) + tf.math.imag(tensor) if tensor.dtype.is_complex else tensor
