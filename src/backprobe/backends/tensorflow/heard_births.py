"""Reports operations that make NaN from operands without NaN, or Inf from finite operands, as TensorFlow runs them
eagerly.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any

import tensorflow as tf

from backprobe.backends.heard_arrays import birth
from backprobe.backends.heard_births import HeardBirth
from backprobe.backends.tensorflow.hearing import hearing_operations
from backprobe.backends.tensorflow.private import BACKWARD, argument_names
from backprobe.backends.user_lines import callers


@contextmanager
def hearing_births(heard: Callable[[HeardBirth], None]) -> Iterator[None]:
    """Inside this context, ``heard`` is called for operations whose first result has NaN without NaN in an operand, or
    Inf with finite operands. Operations with an operand without numbers, or with a very large array, are left out.
    """

    def told(kind: Any, inputs: Sequence[Any], attrs: Any, outputs: Sequence[Any], *rest: Any, **named: Any) -> None:
        name = kind.decode() if isinstance(kind, bytes) else str(kind)
        numbers = [_numbers(one) for one in (*inputs, *outputs[:1])]
        if not outputs or any(one is None for one in numbers):
            return
        *operands, result = numbers
        names = argument_names(name, len(operands))
        one = birth(name, list(zip(names, operands, strict=True)), result, _is_backward(sys._getframe(1)))
        if one is not None:
            heard(one)

    with hearing_operations(told):
        yield


def _numbers(tensor: Any) -> Any:
    # Return the numbers of a tensor; None if it has none, such as a Variable's handle or a tensor of a graph that is
    # being built.
    if not hasattr(tensor, "numpy") or tensor.dtype in (tf.resource, tf.variant, tf.string):
        return None
    numbers = tensor.numpy()
    return numbers.astype("float32") if tensor.dtype == tf.bfloat16 else numbers


def _is_backward(frame: FrameType | None) -> bool:
    # Is a tape computing gradients in this frame or one of its callers?
    return any(one.f_code in BACKWARD for one in callers(frame))
