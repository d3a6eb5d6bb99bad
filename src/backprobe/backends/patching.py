"""Functions patched temporarily for one thread: its calls are redirected, and other threads see the original."""

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
"""(the next function) -> what is called instead of it."""

LOCK = threading.Lock()
STANDS_FOR: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()
"""Functions that stand in for others in a class, see ``dispatching``, and the originals."""
STOOD: list[str] = []
"""The name of the last that did: it takes long to ask whether the dictionary is empty."""


class Patched:
    """Stands in for a function: calls in a thread that has patched it go through its wrappers, all others to the
    function.
    """

    def __init__(
        self,
        owner: Any,
        name: str,
        own: Any,
        first: tuple[int, Callable[..., Any], bool],
        aside: Callable[[], bool] | None = None,
    ) -> None:
        """``own`` is the owner's own attribute; None if it comes from the owner's class, or is inherited.

        ``first`` is the first patch: its thread, what it gives, and whether that replaces the function.
        """
        self.owner, self.name, self.own, self.aside = owner, name, own, aside
        self.original = original = getattr(owner, name) if own is None else own
        self.wraps = [first]
        thread, given, replaces = first
        self.calls = {thread: given if replaces else given(original)}  # by thread: the wrapped function
        self.__module__, self.__doc__ = getattr(original, "__module__", ""), original.__doc__
        self.__wrapped__ = original

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else MethodType(self, instance)

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        if self.aside is not None and self.aside():
            return self.original(*args, **kwargs)
        return self.calls.get(threading.get_ident(), self.original)(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        """Looks like the function for which it stands in."""
        return getattr(self.original, name)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        """A copy of the owner gets the function that it would have without the patch."""
        copied = memo.get(id(self.owner))
        if self.own is not None or copied is None:
            return copy.deepcopy(self.original, memo)
        return getattr(type(self.owner), self.name).__get__(copied)

    def __reduce__(self) -> Any:
        return (getattr, (self.owner, self.name)) if self.own is None else (copy.copy, (self.own,))

    def put_on(self, thread: int, given: Callable[..., Any], replaces: bool) -> None:
        """From now on, calls in a thread go to ``given``, or to what it makes of the function they went to before."""
        self.wraps.append((thread, given, replaces))
        self.calls[thread] = given if replaces else given(self.calls.get(thread, self.original))

    def take_off(self, thread: int, given: Callable[..., Any]) -> None:
        """Remove a patch of a thread; the last one also removes this object. It may have been removed already."""
        wraps, owner, name = self.wraps, self.owner, self.name
        if len(wraps) == 1 and wraps[0][0] == thread and wraps[0][1] is given:  # the usual case
            wraps.clear()
            self.calls = {}
        else:
            self._take_off_one(thread, given)
        if not wraps and vars(owner).get(name) is self:  # otherwise the user has put another there
            if self.own is not None:
                _put(owner, name, self.own)
            elif isinstance(owner, type):  # the function is inherited
                delattr(owner, name)
            else:
                del vars(owner)[name]

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
"""Owners, names, and the wrapper or replacement for each ``owner.name``."""


@contextmanager
def patched(functions: Patches, *, replaces: bool = False, aside: Callable[[], bool] | None = None) -> Iterator[None]:
    """Within this context, this thread's calls of each ``owner.name`` go to what its ``Wrap`` returns.

    With ``replaces``, they go to the given function itself. While ``aside`` returns True, as for a compiler that traces
    what it runs, they go to the original. The last context to end restores the original. An owner's dictionary is read
    directly and, for an instance, written directly, because its ``__setattr__`` may do anything.
    """
    thread = threading.get_ident()
    undo: list[tuple[Patched, Callable[..., Any]]] = []

    def take_off(one: tuple[Patched, Callable[..., Any]]) -> None:
        one[0].take_off(thread, one[1])

    try:
        with LOCK:
            for owner, name, given in functions:
                held: Any = vars(owner)
                found = held.get(name)
                if type(found) is Patched:
                    undo.append((found, given))
                    found.put_on(thread, given, replaces)
                    continue
                one = Patched(owner, name, found, (thread, given, replaces), aside)
                undo.append((one, given))
                if isinstance(owner, type):
                    setattr(owner, name, one)
                else:
                    held[name] = one
        yield
    finally:
        with LOCK:
            try:
                _take_off_usual(undo, thread)
                undo_all(undo, take_off)
            except BaseException:
                undo_all(undo, take_off)  # if the first call was interrupted before it began
                raise


def _take_off_usual(undo: list[tuple[Patched, Callable[..., Any]]], thread: int) -> None:
    # Remove the last patches as long as each is the only one of an instance's inherited function, as those of a model's
    # forwards are.
    while undo:
        one, given = undo[-1]
        owner, only = one.owner, one.wraps
        if one.own is not None or isinstance(owner, type) or len(only) != 1 or only[0][1] is not given:
            return
        held = vars(owner)
        if held.get(one.name) is not one or only[0][0] != thread:
            return
        del held[one.name]
        one.wraps, one.calls = [], {}
        undo.pop()


def listening(owner: Any, name: str, listener: Callable[..., Any]) -> AbstractContextManager[None]:
    """The same for one function, whose calls become ``listener(next, *args, **kwargs)``; ``next`` is the original."""
    return patched([(owner, name, lambda following: functools.partial(listener, following))])


def replaced(functions: Patches, aside: Callable[[], bool] | None = None) -> AbstractContextManager[None]:
    """The same, with other functions in place of these."""
    return patched(functions, replaces=True, aside=aside)


def original(owner: Any, name: str) -> Any:
    """The original function, whoever has patched it."""
    found = getattr(owner, name)
    if type(found) is MethodType and not STOOD:  # the usual case
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
