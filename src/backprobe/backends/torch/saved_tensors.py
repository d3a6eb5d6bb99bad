"""Reads the tensors that a node has saved, unless a hook of the program would unpack them, such as a checkpoint's.

Newer releases of PyTorch reveal the hook that unpacks a saved tensor. In older ones the tensor is read, and a hook of
the program is stopped before its first line.
"""

from __future__ import annotations

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
"""Returned in place of what a hook would unpack."""


class _Stopped(BaseException):
    """Raised when a Python function was about to run."""


def names(node: Node) -> Iterator[str]:
    """The attributes that hold the tensors saved by a node."""
    for name in dir(node):
        if name.startswith("_raw_saved_"):
            yield name.removeprefix("_raw_" if name == "_raw_saved_tensors" else "_raw")


def read(node: Node, name: str) -> Any:
    """A saved tensor or several, with history, or ``HOOKED``. Raises RuntimeError if one was freed or written to."""
    if TELLS_HOOKS:
        return HOOKED if any(one.unpack_hook is not None for one in packed(node, name)) else getattr(node, name)
    if _stopped(_nothing) is HOOKED:
        return _stopped(partial(getattr, node, name))
    with ThreadPoolExecutor(1) as other:  # a trace function is running, in whose thread calls cannot be observed
        return other.submit(_stopped, partial(getattr, node, name)).result()


def data(node: Node, name: str) -> Sequence[Any]:
    """The memory of these tensors, even if they were written since. Older releases do not show it."""
    with suppress(RuntimeError):
        if TELLS_HOOKS:
            return [one.data for one in packed(node, name) if one.unpack_hook is None]
        found = read(node, name)
        return found if isinstance(found, tuple | list) else () if found is HOOKED else (found,)
    return ()


def is_hooked(node: Node) -> bool:
    """Would a hook of the program run when this node runs?"""
    for name in names(node):
        with suppress(RuntimeError):
            if read(node, name) is HOOKED:
                return True
    return False


def tensors(node: Node) -> Iterator[Tensor]:
    """The tensors that a node has saved and that can be read."""
    for name in names(node):
        with suppress(RuntimeError):
            found = read(node, name)
            for one in found if isinstance(found, tuple | list) else (found,):
                if isinstance(one, Tensor):
                    yield one


def broken(node: Node, words: str) -> Iterator[Tensor | None]:
    """The tensors of a node that can no longer be read for this reason; None for one that is not visible."""
    for name in names(node):
        try:
            read(node, name)
        except RuntimeError as error:
            if words in str(error):
                yield from data(node, name) or [None]


def as_they_were(node: Node, written: Tensor, before: int) -> list[Tensor]:
    """Tensors of a broken node that become readable if ``written`` counts no more writes than ``before``."""
    whole, now = {*map(id, tensors(node))}, written._version
    set_version(written, before)
    try:
        return [one for one in tensors(node) if id(one) not in whole]
    finally:
        set_version(written, now)


def _stopped(call: Callable[[], Any]) -> Any:
    # The result of a call into C, or HOOKED if that starts to run a Python function.
    #
    # A profile function would do, but from Python 3.12 on no tracer gets instructions once there was one.
    before = sys.gettrace()
    sys.settrace(_stop)
    try:
        with DisableTorchDispatch():  # reading a node's own result detaches it, which modes would be told
            return call()
    except _Stopped:
        return HOOKED
    finally:
        sys.settrace(before)


def _nothing() -> None:
    pass


def packed(node: Node, name: str) -> Sequence[Any]:
    """What PyTorch holds of these tensors, which hooks may be given to."""
    held = getattr(node, ("_raw" if name[0] == "_" else "_raw_") + name)
    return held if isinstance(held, tuple | list) else (held,)


def _stop(frame: FrameType, event: str, arg: object) -> None:
    if event == "call":
        raise _Stopped
