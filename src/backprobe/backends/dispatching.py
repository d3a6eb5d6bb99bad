"""Methods of classes that go another way for some of their instances, in one thread: nothing lies on an instance.

What is copied, saved or sent to another thread is therefore what it would be without, and so are its calls.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from types import FunctionType
from typing import Any

from backprobe.backends.patching import LOCK, STANDS_FOR, STOOD

Instead = dict[tuple[int, int], Callable[..., Any]]
"""What is called in the place of a method, by the thread and the identity of the instance."""


class Dispatched:
    """One method of one class, as it is while some of its instances go another way."""

    def __init__(self, owner: type, name: str, aside: Callable[[], bool]) -> None:
        self.owner, self.name = owner, name
        self.original: FunctionType = vars(owner)[name]
        self.instead: Instead = {}
        self.function = _function(self.original, aside, threading.get_ident, self.instead.get, id)
        STANDS_FOR[self.function] = self.original
        STOOD[:] = (name,)


def _function(original: Any, aside: Any, thread: Any, instead: Any, identity: Any) -> FunctionType:
    # What stands for a function. Its globals are those of the function, for whoever compiles its source.
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
"""Those that stand in their classes now."""


def owner_of(instance: Any, name: str) -> type | None:
    """The class whose plain function is an instance's method; None where it is anything else."""
    if name in vars(instance):
        return None
    for kind in type(instance).__mro__:
        if name in vars(kind):
            return kind if isinstance(vars(kind)[name], FunctionType) else None
    return None


def dispatch(instance: Any, name: str, owner: type, instead: Callable[..., Any], aside: Callable[[], bool]) -> None:
    """This thread's calls of the method that an instance has from ``owner`` go to ``instead`` from now on.

    While ``aside`` says so, as of a compiler that traces what it runs, they go to the method as it was.
    """
    with LOCK:
        one = KNOWN.get((owner, name))
        if one is None or vars(owner).get(name) is not one.function:
            one = KNOWN[owner, name] = Dispatched(owner, name, aside)
            setattr(owner, name, one.function)
        one.instead[threading.get_ident(), id(instance)] = instead


def put_back(instance: Any, name: str, owner: type, thread: int) -> None:
    """They go to the method again; the last one out takes away what stood for it, unless the program has."""
    with LOCK:
        one = KNOWN.get((owner, name))
        if one is None:
            return
        one.instead.pop((thread, id(instance)), None)
        if not one.instead:
            del KNOWN[owner, name]
            if vars(owner).get(name) is one.function:
                setattr(owner, name, one.original)
