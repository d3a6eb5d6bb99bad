"""Redirects methods for some instances of a class, in one thread, without storing anything on the instances.

Copying, saving or sending an instance to another thread therefore does not copy the redirection.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from types import FunctionType
from typing import Any

from backprobe.backends.patching import LOCK, STANDS_FOR, STOOD

Instead = dict[tuple[int, int], Callable[..., Any]]
"""The replacement of a method, by thread and identity of the instance."""


class Dispatched:
    """One method of one class, while it is redirected for some instances."""

    def __init__(self, owner: type, name: str, aside: Callable[[], bool]) -> None:
        self.owner, self.name = owner, name
        self.original: FunctionType = vars(owner)[name]
        self.instead: Instead = {}
        self.function = _function(self.original, aside, threading.get_ident, self.instead.get, id)
        STANDS_FOR[self.function] = self.original
        STOOD[:] = (name,)


def _function(original: Any, aside: Any, thread: Any, instead: Any, identity: Any) -> FunctionType:
    # Return the function that replaces the original in the class. It has the original's globals, for tools that compile
    # its source.
    def method(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        if not aside():
            found = instead((thread(), identity(self)))
            if found is not None:
                return found(*args, **kwargs)
        return original(self, *args, **kwargs)

    made = FunctionType(method.__code__, original.__globals__, original.__name__, None, method.__closure__)
    functools.update_wrapper(made, original)
    return made


KNOWN: dict[tuple[type, str], Dispatched] = {}
"""The redirected methods that are installed now."""


def owner_of(instance: Any, name: str) -> type | None:
    """Return the class that defines an instance's method as a plain function; None if the method is anything else."""
    if name in vars(instance):
        return None
    for kind in type(instance).__mro__:
        if name in vars(kind):
            return kind if isinstance(vars(kind)[name], FunctionType) else None
    return None


def dispatch(instance: Any, name: str, owner: type, instead: Callable[..., Any], aside: Callable[[], bool]) -> None:
    """Redirect this thread's calls of the method that an instance has from ``owner`` to ``instead``.

    While ``aside`` returns True, calls go to the original method. An example is a compiler that is tracing.
    """
    with LOCK:
        one = KNOWN.get((owner, name))
        if one is None or vars(owner).get(name) is not one.function:
            one = KNOWN[owner, name] = Dispatched(owner, name, aside)
            setattr(owner, name, one.function)
        one.instead[threading.get_ident(), id(instance)] = instead


def put_back(instance: Any, name: str, owner: type, thread: int) -> None:
    """End the redirection of an instance's method in a thread. When the last one of the method has ended, the class
    gets its original method back, unless the program has replaced the method since.
    """
    with LOCK:
        one = KNOWN.get((owner, name))
        if one is None:
            return
        one.instead.pop((thread, id(instance)), None)
        if not one.instead:
            del KNOWN[owner, name]
            if vars(owner).get(name) is one.function:
                setattr(owner, name, one.original)
