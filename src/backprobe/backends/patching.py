"""Functions patched for a while, for one thread: its calls go another way, and other threads see the original."""

from __future__ import annotations

import copy
import functools
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from types import MethodType
from typing import Any

Wrap = Callable[[Callable[..., Any]], Callable[..., Any]]
"""(what it stands before) -> what is called in its place."""

LOCK = threading.Lock()


class Patched:
    """Stands for a function: calls in a thread that has patched it go through its wraps, all others to the function."""

    def __init__(self, owner: Any, name: str) -> None:
        self.owner, self.name = owner, name
        self.own = vars(owner).get(name)  # None for an instance's method, which is on its class
        self.original = getattr(owner, name) if self.own is None else self.own
        self.wraps: dict[int, list[Wrap]] = {}  # by thread
        self.calls: dict[int, Callable[..., Any]] = {}  # by thread: what they make of the original
        self.__module__, self.__doc__ = self.original.__module__, self.original.__doc__  # the rest by ``__getattr__``
        self.__wrapped__ = self.original

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else MethodType(self, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.calls.get(threading.get_ident(), self.original)(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        """To whoever looks at it, it is the function that it stands for."""
        return getattr(self.original, name)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        """A copy of the owner gets the function that the copy would have without us."""
        copied = memo.get(id(self.owner))
        if self.own is not None or copied is None:
            return copy.deepcopy(self.original, memo)
        return getattr(type(self.owner), self.name).__get__(copied)

    def __reduce__(self) -> Any:
        return (getattr, (self.owner, self.name)) if self.own is None else (copy.copy, (self.own,))

    def renew(self, thread: int) -> None:
        """The wraps of a thread are others: the last is called, and calls those before it."""
        call = self.original
        for wrap in self.wraps[thread]:
            call = wrap(call)
        self.calls[thread] = call

    def take_off(self, wrap: Wrap, thread: int) -> None:
        """One wrap of a thread goes, and with the last one this."""
        self.wraps[thread].remove(wrap)
        if self.wraps[thread]:
            self.renew(thread)
        else:
            del self.wraps[thread], self.calls[thread]
        if not self.wraps and vars(self.owner).get(self.name) is self:  # or the user has put another
            if self.own is None:
                del vars(self.owner)[self.name]
            else:
                _put(self.owner, self.name, self.own)


@contextmanager
def patched(functions: Sequence[tuple[Any, str, Wrap]]) -> Iterator[None]:
    """Within this context this thread's calls of each ``owner.name`` go to what its wrap makes of it.

    The last one out puts it back. An owner's dictionary is read and, of an instance, written past its
    ``__setattr__``, which may do anything.
    """
    thread = threading.get_ident()
    standing = []
    with LOCK:
        for owner, name, wrap in functions:
            found = vars(owner).get(name)
            one = found if isinstance(found, Patched) else Patched(owner, name)
            _put(owner, name, one)
            one.wraps.setdefault(thread, []).append(wrap)
            one.renew(thread)
            standing.append((one, wrap))
    try:
        yield
    finally:
        with LOCK:
            for one, wrap in standing:
                one.take_off(wrap, thread)


def listening(owner: Any, name: str, listener: Callable[..., Any]) -> AbstractContextManager[None]:
    """The same of one function, with calls listener(next, *args, **kwargs), ``next`` being what it stands before."""
    return patched([(owner, name, lambda following: functools.partial(listener, following))])


def replaced(functions: Sequence[tuple[Any, str, Callable[..., Any]]]) -> AbstractContextManager[None]:
    """The same, with other functions in the place of these."""
    return patched([(owner, name, functools.partial(_instead, other)) for owner, name, other in functions])


def _instead(other: Callable[..., Any], following: Callable[..., Any]) -> Callable[..., Any]:
    return other


def original(owner: Any, name: str) -> Any:
    """The function itself, whoever has patched it."""
    found = getattr(owner, name)
    return found.original if isinstance(found, Patched) else found


def _put(owner: Any, name: str, value: Any) -> None:
    if isinstance(owner, type):
        setattr(owner, name, value)
    else:
        vars(owner)[name] = value
