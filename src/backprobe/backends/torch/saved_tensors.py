"""Reads the tensors that a node has saved, except those that a hook of the program would unpack, such as a checkpoint's
hook.

Newer releases of PyTorch reveal the hook that unpacks a saved tensor. In older releases the tensor is read, and a hook
of the program is stopped before its first line.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from types import FrameType
from typing import Any, Final

from torch import Tensor
from torch.autograd.graph import Node

from backprobe.backends.torch.private import TELLS_HOOKS, DisableTorchDispatch, set_version

HOOKED: Final = object()
"""Returned instead of a saved tensor that a hook of the program would unpack."""


class _Stopped(BaseException):
    """Raised when a Python function was about to run while a saved tensor was read."""


def names(node: Node) -> Iterator[str]:
    """Yield the names of the attributes that hold the tensors saved by a node."""
    for name in dir(node):
        if name.startswith("_raw_saved_"):
            yield name.removeprefix("_raw_" if name == "_raw_saved_tensors" else "_raw")


def read(node: Node, name: str) -> Any:
    """Return a saved tensor, or several saved tensors, with their history. Return ``HOOKED`` if a hook of the program
    would run. Raises RuntimeError if a tensor was freed or written to.
    """
    if TELLS_HOOKS:
        return HOOKED if any(one.unpack_hook is not None for one in packed(node, name)) else getattr(node, name)
    if _stopped(lambda: None) is HOOKED:
        return _stopped(partial(getattr, node, name))
    with ThreadPoolExecutor(1) as other:  # a trace function already runs in this thread
        return other.submit(_stopped, partial(getattr, node, name)).result()


def data(node: Node, name: str) -> Sequence[Any]:
    """Return tensors on the memory of these saved tensors, even if they were written to since. Those that a hook would
    unpack are left out; in older releases, also those that can no longer be read.
    """
    with suppress(RuntimeError):
        if TELLS_HOOKS:
            return [one.data for one in packed(node, name) if one.unpack_hook is None]
        found = read(node, name)
        return found if isinstance(found, tuple | list) else () if found is HOOKED else (found,)
    return ()


def is_hooked(node: Node) -> bool:
    """Would a hook of the program unpack one of this node's saved tensors?"""
    for name in names(node):
        with suppress(RuntimeError):
            if read(node, name) is HOOKED:
                return True
    return False


def tensors(node: Node) -> Iterator[Tensor]:
    """Yield the tensors that a node has saved and that can be read."""
    for name in names(node):
        with suppress(RuntimeError):
            found = read(node, name)
            for one in found if isinstance(found, tuple | list) else (found,):
                if isinstance(one, Tensor):
                    yield one


def broken(node: Node, words: str) -> Iterator[Tensor | None]:
    """Yield the saved tensors of a node that can no longer be read, with an error that contains ``words``. Yields None
    for a tensor that is not accessible.
    """
    for name in names(node):
        try:
            read(node, name)
        except RuntimeError as error:
            if words in str(error):
                yield from data(node, name) or [None]


def as_they_were(node: Node, written: Tensor, before: int) -> list[Tensor]:
    """Return the saved tensors of a node that become readable when the version of ``written`` is set back to
    ``before``.
    """
    whole, now = {*map(id, tensors(node))}, written._version
    set_version(written, before)
    try:
        return [one for one in tensors(node) if id(one) not in whole]
    finally:
        set_version(written, now)


def _stopped(call: Callable[[], Any]) -> Any:
    # Return the result of a call into C, or HOOKED if the call starts to run a Python function.
    #
    # This uses a trace function. A profile function would also work, but from Python 3.12 on, once a profile function
    # was set, trace functions no longer receive the events of single instructions. No garbage is collected meanwhile:
    # the program's finalizers would be stopped too.
    before, collects = sys.gettrace(), gc.isenabled()
    gc.disable()
    sys.settrace(_stop)
    try:
        with DisableTorchDispatch():  # reading a result of the node detaches it, and a mode would see that
            return call()
    except _Stopped:
        return HOOKED
    finally:
        sys.settrace(before)
        if collects:
            gc.enable()


def packed(node: Node, name: str) -> Sequence[Any]:
    """Return PyTorch's objects for these saved tensors. Unpacking hooks can be registered on such an object."""
    held = getattr(node, ("_raw" if name[0] == "_" else "_raw_") + name)
    return held if isinstance(held, tuple | list) else (held,)


def _stop(frame: FrameType, event: str, arg: object) -> None:
    if event == "call":
        raise _Stopped
