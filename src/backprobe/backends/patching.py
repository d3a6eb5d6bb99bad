"""Functions patched for a while, for one thread: its calls go another way, and other threads see the original."""

from __future__ import annotations

import copy
import functools
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from types import MethodType
from typing import Any
from weakref import WeakKeyDictionary

from backprobe.backends.undoing import undo_all

Wrap = Callable[[Callable[..., Any]], Callable[..., Any]]
"""(what it stands before) -> what is called in its place."""

LOCK = threading.Lock()
STANDS_FOR: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()
"""Functions that stand for others in a class, see ``dispatching``, and those others."""
STOOD: list[str] = []
"""The name of the last that did: it takes long to ask whether the dictionary is empty."""


class Patched:
    """Stands for a function: calls in a thread that has patched it go through its wraps, all others to the function."""

    def __init__(self, owner: Any, name: str, own: Any, aside: Callable[[], bool] | None = None) -> None:
        """``own`` is what the owner itself has; None where that is its class's, or inherited."""
        self.owner, self.name, self.own, self.aside = owner, name, own, aside
        self.original = original = getattr(owner, name) if own is None else own
        self.wraps: list[tuple[int, Callable[..., Any], bool]] = []  # by thread; does it stand instead of the function?
        self.calls: dict[int, Callable[..., Any]] = {}  # by thread: what they make of the original
        self.__module__, self.__doc__ = getattr(original, "__module__", ""), original.__doc__
        self.__wrapped__ = original

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else MethodType(self, instance)

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        if self.aside is not None and self.aside():
            return self.original(*args, **kwargs)
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

    def put_on(self, thread: int, given: Callable[..., Any], replaces: bool) -> None:
        """Calls in a thread go from now on to what is given, or to what it makes of that which they went to before."""
        self.wraps.append((thread, given, replaces))
        self.calls[thread] = given if replaces else given(self.calls.get(thread, self.original))

    def take_off(self, thread: int, given: Callable[..., Any]) -> None:
        """What was given to a thread goes, and with the last of all this. It may have gone before."""
        wraps, owner, name = self.wraps, self.owner, self.name
        if len(wraps) == 1 and wraps[0][0] == thread and wraps[0][1] is given:  # as mostly
            wraps.clear()
            self.calls = {}
        else:
            self._take_off_one(thread, given)
        if not wraps and (held := vars(owner)).get(name) is self:  # or the user has put another
            if self.own is not None:
                _put(owner, name, self.own)
            elif isinstance(owner, type):  # it has inherited the function
                delattr(owner, name)
            else:
                del held[name]

    def _take_off_one(self, thread: int, given: Callable[..., Any]) -> None:
        at = len(self.wraps) - 1
        while at >= 0 and (self.wraps[at][1] is not given or self.wraps[at][0] != thread):
            at -= 1
        if at < 0:
            return
        del self.wraps[at]
        calls: dict[int, Callable[..., Any]] = {}
        for own, one, replaces in self.wraps:
            calls[own] = one if replaces else one(calls.get(own, self.original))
        self.calls = calls


Patches = Sequence[tuple[Any, str, Callable[..., Any]]]
"""Owners, names, and what is given for each ``owner.name``."""


@contextmanager
def patched(functions: Patches, *, replaces: bool = False, aside: Callable[[], bool] | None = None) -> Iterator[None]:
    """Within this context this thread's calls of each ``owner.name`` go to what its ``Wrap`` makes of it.

    Or, where it ``replaces`` the function, to what is given itself. While ``aside`` says so, as of a compiler that
    traces what it runs, they go to the function as it was. The last one out puts it back. An owner's
    dictionary is read and, of an instance, written past its ``__setattr__``, which may do anything.
    """
    thread = threading.get_ident()
    undo: list[tuple[Patched, Callable[..., Any]]] = []

    def take_off(one: tuple[Patched, Callable[..., Any]]) -> None:
        one[0].take_off(thread, one[1])

    try:
        with LOCK:
            for owner, name, given in functions:
                found = vars(owner).get(name)
                one = found if isinstance(found, Patched) else Patched(owner, name, found, aside)
                undo.append((one, given))
                if one is not found:
                    _put(owner, name, one)
                one.put_on(thread, given, replaces)
        yield
    finally:
        with LOCK:
            try:
                undo_all(undo, take_off)
            except BaseException:
                undo_all(undo, take_off)  # where that was interrupted before it began
                raise


def listening(owner: Any, name: str, listener: Callable[..., Any]) -> AbstractContextManager[None]:
    """The same of one function, with calls listener(next, *args, **kwargs), ``next`` being what it stands before."""
    return patched([(owner, name, lambda following: functools.partial(listener, following))])


def replaced(functions: Patches, aside: Callable[[], bool] | None = None) -> AbstractContextManager[None]:
    """The same, with other functions in the place of these."""
    return patched(functions, replaces=True, aside=aside)


def original(owner: Any, name: str) -> Any:
    """The function itself, whoever has patched it."""
    found = getattr(owner, name)
    if type(found) is MethodType and not STOOD:  # nearly all
        return found
    if isinstance(found, Patched):
        return found.original
    inner = STANDS_FOR.get(found.__func__) if isinstance(found, MethodType) else None
    return found if inner is None else MethodType(inner, found.__self__)


def _put(owner: Any, name: str, value: Any) -> None:
    if isinstance(owner, type):
        setattr(owner, name, value)
    else:
        vars(owner)[name] = value
