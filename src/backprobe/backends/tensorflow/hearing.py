"""Listens to TensorFlow's eager operations in one thread, with the gradient functions that they have of their own."""

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
"""A listener for the gradients of a function's outputs, and for those that it returns for its inputs."""


def ignore(tensor: Any) -> None:
    """Does nothing."""


@contextmanager
def hearing_operations(
    operation: Callable[..., None],
    recorded: Callable[[str, Sequence[Any], Sequence[Any], bool], OwnGradient | None],
    left: Callable[[Any], None] = ignore,
) -> Iterator[None]:
    """Inside this context, ``operation`` is called after each operation of this thread, like an operation callback.

    ``recorded`` is called for each operation that has its own gradient function, with its name, its outputs, its
    inputs, and whether the function comes from ``tf.custom_gradient``. It may return a listener, which is then called
    with the arguments and the result of that gradient function. ``left`` is called with each tensor whose numbers are
    taken out of TensorFlow, as by ``numpy()`` or ``float()``. Access through its buffer is not noticed.
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
        """Reads Variables first: an operation that receives a Variable directly would read it in C++, unnoticed."""
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
    """Inside ``hearing_operations``, calls ``operation`` for the same operations, afterwards.

    ``own_gradient`` is called for operations with their own gradient function: (name, outputs, inputs, function).
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
    if RESOURCE in kind.__mro__:  # isinstance would ask its metaclass, in Python
        return given.value()
    if (kind is list or kind is tuple) and not UNREAD.issuperset(map(type, given)):
        read = [_read(one) for one in given]
        return given if all(map(is_, read, given)) else read
    return given
