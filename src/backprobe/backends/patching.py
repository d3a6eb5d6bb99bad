"""Functions patched for a while, for one thread: its calls go through a listener, and others see the original."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import MethodType
from typing import Any

Listener = Callable[..., Any]
"""Called as listener(next, *args, **kwargs), ``next`` being what it stands before."""

LOCK = threading.Lock()


class Patched:
    """Stands for a function: calls in a thread that listens go through its listeners, all others to the function."""

    def __init__(self, original: Any, *, is_found_elsewhere: bool = False) -> None:
        functools.update_wrapper(self, original)
        self.original = original
        self.is_found_elsewhere = is_found_elsewhere  # an instance's method, on its class
        self.listeners: dict[int, list[Listener]] = {}  # by thread

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else MethodType(self, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        own = self.listeners.get(threading.get_ident())
        if not own:
            return self.original(*args, **kwargs)
        if len(own) == 1:
            return own[0](self.original, *args, **kwargs)
        return self._through(own[:], *args, **kwargs)

    def _through(self, listeners: list[Listener], /, *args: Any, **kwargs: Any) -> Any:
        """The last listener is called, and calls those before it."""
        if not listeners:
            return self.original(*args, **kwargs)
        return listeners[-1](functools.partial(self._through, listeners[:-1]), *args, **kwargs)


@contextmanager
def listening(owner: Any, name: str, listener: Listener) -> Iterator[None]:
    """Within this context this thread's calls of ``owner.name`` go to ``listener``; the last one out puts it back.

    The owner's dictionary is read and, of an instance, written past its ``__setattr__``, which may do anything.
    """
    thread = threading.get_ident()
    with LOCK:
        own = vars(owner).get(name)
        standing = own if isinstance(own, Patched) else None
        if standing is None:
            found = getattr(owner, name) if own is None else own
            standing = Patched(found, is_found_elsewhere=own is None)
            _put(owner, name, standing)
        standing.listeners.setdefault(thread, []).append(listener)
    try:
        yield
    finally:
        with LOCK:
            standing.listeners[thread].remove(listener)
            if not standing.listeners[thread]:
                del standing.listeners[thread]
            if not standing.listeners and vars(owner).get(name) is standing:
                if standing.is_found_elsewhere:
                    del vars(owner)[name]
                else:
                    _put(owner, name, standing.original)


def original(owner: Any, name: str) -> Any:
    """The function itself, whoever listens to it."""
    found = getattr(owner, name)
    return found.original if isinstance(found, Patched) else found


def _put(owner: Any, name: str, value: Any) -> None:
    if isinstance(owner, type):
        setattr(owner, name, value)
    else:
        vars(owner)[name] = value
