"""Observes TensorFlow's eager operations in one thread, including custom gradient functions of operations."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from operator import is_
from typing import Any

from backprobe.backends.patching import listening
from backprobe.backends.tensorflow.private import (
    EXECUTING,
    EXECUTING_FAST,
    LEAVING,
    RECORDING,
    RESOURCE,
    UNREAD,
    calling_back,
    execute_with_callbacks,
    is_own_gradient,
)

OwnGradient = Callable[[Sequence[Any], Any], None]
"""A listener. It is called with the gradients of the outputs of a custom function, and the gradients that this function
returned for its inputs.
"""


def ignore(*reported: Any) -> None:
    """Do nothing."""


@contextmanager
def hearing_operations(
    operation: Callable[..., None],
    recorded: Callable[[str, Sequence[Any], Sequence[Any], bool], OwnGradient | None] = ignore,
    left: Callable[[Any], None] = ignore,
) -> Iterator[None]:
    """Inside this context, ``operation`` is called after each operation of this thread, like an operation callback.

    ``recorded`` is called for each operation with a custom gradient function. It receives the name, the outputs, the
    inputs, and whether the function comes from ``tf.custom_gradient``. It may return a listener, which is then called
    with the arguments and the result of the gradient function. ``left`` is called with each tensor whose numbers are
    read out of TensorFlow, for example by ``numpy()`` or ``float()``. Access through the tensor's buffer is not
    observed.
    """

    def noting(following: Callable[..., Any], kind: Any, outputs: Any, inputs: Any, *rest: Any, **named: Any) -> Any:
        heard = recorded(str(kind), outputs, inputs, any(map(is_own_gradient, rest)))
        if heard is not None:
            rest = tuple([_heard(own, heard) if is_own_gradient(own) else own for own in rest])
        return following(kind, outputs, inputs, *rest, **named)

    def leaving(following: Callable[..., Any], tensor: Any) -> Any:
        left(tensor)
        return following(tensor)

    def executing(following: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return execute_with_callbacks(*args, **kwargs)

    def reading(following: Callable[..., Any], ctx: Any, kind: Any, name: Any, *inputs: Any) -> Any:
        """Read Variables first. Otherwise an operation that receives a Variable would read it in C++, unobserved."""
        read = inputs if UNREAD.issuperset(map(type, inputs)) else map(_read, inputs)
        return following(ctx, kind, name, *read)

    with (
        listening(*EXECUTING, executing),
        listening(*RECORDING, noting),
        listening(*LEAVING, leaving),
        listening(*EXECUTING_FAST, reading),
        calling_back(operation),
    ):
        yield


@contextmanager
def also_hearing(
    operation: Callable[..., None], own_gradient: Callable[[Any, Sequence[Any], Sequence[Any], Any], None]
) -> Iterator[None]:
    """Inside ``hearing_operations``, also call ``operation`` for the same operations, afterwards.

    ``own_gradient`` is called for operations with a custom gradient function: (name, outputs, inputs, function).
    """

    def noting(following: Callable[..., Any], kind: Any, outputs: Any, inputs: Any, *rest: Any, **named: Any) -> Any:
        own_gradient(kind, outputs, inputs, rest[0] if rest else named["backward_function"])
        return following(kind, outputs, inputs, *rest, **named)

    with listening(*RECORDING, noting), calling_back(operation):
        yield


def _heard(function: Callable[..., Any], heard: OwnGradient) -> Callable[..., Any]:
    def backward(*given: Any) -> Any:
        gradients = function(*given)
        heard(given, gradients)
        return gradients

    return backward


def _read(given: Any) -> Any:
    kind = type(given)
    if RESOURCE in kind.__mro__:  # isinstance would be slow: it calls the metaclass, in Python
        return given.value()
    if (kind is list or kind is tuple) and not UNREAD.issuperset(map(type, given)):
        read = [_read(one) for one in given]
        return given if all(map(is_, read, given)) else read
    return given
