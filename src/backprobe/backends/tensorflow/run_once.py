"""Operations with a state of their own, as ``tf.py_function`` is: they are differentiated once, and heard of then.

TensorFlow differentiates the Python function of such an operation with a tape that has seen that run alone. Where this
gives None, TensorFlow goes on with a single 0, whatever shape the operand has, which fits no other gradient of that.
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
"""(an operation, the gradients that came to what it made, those of its operands) -> the last, as they go on."""

CALLED = {"EagerPyFunc": "tf.py_function"}
"""Operations that a program calls by another name."""


@lru_cache(4096)
def runs_once(kind: str) -> bool:
    """Has this kind of operation a state, so that to differentiate it again is another matter?"""
    return private.is_stateful(kind)


def note(cuts: LoggedCuts, kind: str, flowing: tuple[int, ...], position: int, made: Sequence[Any]) -> None:
    """Such an operation has run on followed values, and no Variable is among its operands."""
    severed = Severed(CALLED.get(kind, kind), CutBy.INSIDE_ZERO, "", flowing, position, users_place())
    cuts.once.update(dict.fromkeys(map(identity_of, made), severed))


def zeros_of(cuts: LoggedCuts, operation: Any, came: Sequence[Any], gave: Sequence[Any]) -> Sequence[Any]:
    """Note where a gradient that is not 0 has come to one of them, and exactly 0 goes on."""
    if any(map(is_other_than_zero, came)):
        outputs = filter(is_eager, operation.outputs or ())  # None where the derivative needs none
        made = [number for one in outputs if (number := identity_of(one)) in cuts.once]
        for given, gradient in zip(operation.inputs or (), gave, strict=False):
            if is_zero(gradient) and is_eager(given):
                cuts.zero.update({(number, identity_of(given)): cuts.once[number] for number in made})
    return gave


def whole(operation: Any, came: Sequence[Any], gave: Sequence[Any]) -> Sequence[Any]:
    """The gradients, each in the shape of its operand."""
    inputs = operation.inputs or gave  # None where the derivative needs none
    return [_shaped(one, given) for one, given in zip(gave, inputs, strict=False)]


def _shaped(gradient: Any, given: Any) -> Any:
    is_alone = is_eager(gradient) and is_eager(given) and gradient.shape.rank == 0
    return tf.broadcast_to(gradient, given.shape) if is_alone and given.shape.rank else gradient


@contextmanager
def heard(*hears: Heard) -> Iterator[None]:
    """Within this context these hear of each such operation that a tape differentiates, one after the other."""

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
