"""Operations with state, such as ``tf.py_function``, which can be differentiated only once.

TensorFlow differentiates the Python function of such an operation with a tape that has recorded only that run. If this
tape returns None, TensorFlow passes on a scalar 0, even if the operand is not a scalar. Such a scalar cannot be added
to other gradients of the operand.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache, partial
from typing import Any

import tensorflow as tf

from backprobe.backends.patching import listening
from backprobe.backends.tensorflow import private
from backprobe.backends.tensorflow.cuts import LoggedCuts, Severed, users_place
from backprobe.backends.tensorflow.private import identity_of
from backprobe.backends.tensorflow.tensors import is_eager, is_other_than_zero, is_zero
from backprobe.record.none_gradients import CutBy

Heard = Callable[[Any, Sequence[Any], Sequence[Any]], Sequence[Any]]
"""A listener: (operation, gradients of its outputs, gradients of its inputs) -> the input gradients to pass on."""

CALLED = {"EagerPyFunc": "tf.py_function"}
"""The public names of operations, by kind."""


@lru_cache(4096)
def runs_once(kind: str) -> bool:
    """Does this kind of operation have state, so that differentiating it again may give another result?"""
    return private.is_stateful(kind)


def note(cuts: LoggedCuts, kind: str, flowing: tuple[int, ...], position: int, made: Sequence[Any]) -> None:
    """Record that an operation with state ran on watched values that are not Variables."""
    severed = Severed(CALLED.get(kind, kind), CutBy.INSIDE_ZERO, "", flowing, position, users_place())
    cuts.once.update(dict.fromkeys(map(identity_of, made), severed))


def zeros_of(cuts: LoggedCuts, operation: Any, came: Sequence[Any], gave: Sequence[Any]) -> Sequence[Any]:
    """Record operations with state that receive a nonzero gradient but pass on exactly 0. Return the gradients ``gave``
    unchanged.
    """
    if any(map(is_other_than_zero, came)):
        outputs = filter(is_eager, operation.outputs or ())  # None if the derivative does not use the outputs
        made = [number for one in outputs if (number := identity_of(one)) in cuts.once]
        for given, gradient in zip(operation.inputs or (), gave, strict=False):
            if is_zero(gradient) and is_eager(given):
                cuts.zero.update({(number, identity_of(given)): cuts.once[number] for number in made})
    return gave


def whole(operation: Any, came: Sequence[Any], gave: Sequence[Any]) -> Sequence[Any]:
    """Return the gradients, in which each scalar is broadcast to the shape of its input."""
    inputs = operation.inputs or gave  # None if the derivative does not use the inputs
    return [_shaped(one, given) for one, given in zip(gave, inputs, strict=False)]


def _shaped(gradient: Any, given: Any) -> Any:
    is_alone = is_eager(gradient) and is_eager(given) and gradient.shape.rank == 0
    return tf.broadcast_to(gradient, given.shape) if is_alone and given.shape.rank else gradient


@contextmanager
def heard(*hears: Heard) -> Iterator[None]:
    """Inside this context, these listeners are called in order for each operation with state that a tape
    differentiates.
    """

    def looking_up(following: Callable[..., Any], registry: Any, kind: str) -> Any:
        function = following(registry, kind)
        is_other = registry is not private.GRADIENTS or function is None or not runs_once(kind)
        return function if is_other else partial(_passing, function, hears)

    with listening(*private.LOOKING_UP, looking_up):
        yield


def _passing(function: Callable[..., Any], hears: Collection[Heard], operation: Any, *came: Any) -> Any:
    gave = function(operation, *came)
    one = not isinstance(gave, list | tuple)
    gradients: Sequence[Any] = [gave] if one else gave
    for hear in hears:
        gradients = hear(operation, came, gradients)
    return gradients[0] if one else gradients
