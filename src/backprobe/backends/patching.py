"""Patches functions temporarily for one thread. Calls in this thread are redirected, and other threads call the
original.
"""

from __future__ import annotations

import copy
import functools
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from types import MethodType
from typing import Any
from weakref import WeakKeyDictionary

from backprobe.backends import copying
from backprobe.backends.undoing import undo_all
from backprobe.source.user_code import STAND_INS

Wrap = Callable[[Callable[..., Any]], Callable[..., Any]]
"""(next function) -> the function that is called instead."""

LOCK = threading.Lock()
STANDS_FOR: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()
"""The functions that replace others in a class (see ``dispatching``), each with the original function."""
STOOD: list[str] = []
"""The name of the last redirected method, or nothing. Testing this list is faster than testing whether the dictionary
is empty.
"""


class Patched:
    """Replaces a function. In a thread that has patched the function, calls go through that thread's wrappers. In other
    threads they go to the function itself.
    """

    def __init__(self, owner: Any, name: str, own: Any, aside: Callable[[], bool] | None = None) -> None:
        """``own`` is the owner's own attribute. It is None if the function comes from the owner's class or from a base
        class.
        """
        self.owner, self.name, self.own, self.aside = owner, name, own, aside
        self.original = original = getattr(owner, name) if own is None else own
        self.wraps: list[tuple[int, Callable[..., Any], bool]] = []  # (thread, function, does it replace?)
        self.calls: dict[int, Callable[..., Any]] = {}  # by thread: the wrapped function
        self.__module__, self.__doc__ = getattr(original, "__module__", ""), original.__doc__
        self.__wrapped__ = original

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else MethodType(self, instance)

    @property
    def __class__(self) -> Any:
        """``MethodType`` if the original is a bound method, such as a classmethod, because ``inspect`` and compilers
        that read source test for it. An ordinary method of a class is a plain function.
        """
        return MethodType if type(self.original) is MethodType else type(self)

    @__class__.setter
    def __class__(self, kind: Any) -> None:
        vars(object)["__class__"].__set__(self, kind)

    def __repr__(self) -> str:
        return repr(self.original)

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        if self.aside is not None and self.aside():
            return self.original(*args, **kwargs)
        return self.calls.get(threading.get_ident(), self.original)(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        """Forward attributes of the original function."""
        return getattr(self.original, name)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        """Return the function that a copy of the owner would have without the patch."""
        copied = memo.get(id(self.owner))
        if self.own is not None or copied is None:
            return copy.deepcopy(self.original, memo)
        return getattr(type(self.owner), self.name).__get__(copied)

    def __reduce__(self) -> Any:
        return (getattr, (self.owner, self.name)) if self.own is None else (copy.copy, (self.own,))

    def put_on(self, thread: int, given: Callable[..., Any], replaces: bool) -> None:
        """From now on, calls in a thread go to ``given`` if ``replaces`` is true. Otherwise ``given`` wraps the
        function that was called before.
        """
        self.wraps.append((thread, given, replaces))
        self.calls[thread] = given if replaces else given(self.calls.get(thread, self.original))

    def take_off(self, thread: int, given: Callable[..., Any]) -> None:
        """Remove a patch of a thread; the last removal also removes this object. Does nothing if the patch is already
        removed.
        """
        wraps, owner, name = self.wraps, self.owner, self.name
        if len(wraps) == 1 and wraps[0][0] == thread and wraps[0][1] is given:  # usually this is the only patch
            wraps.clear()
            self.calls = {}
        else:
            self._take_off_one(thread, given)
        # otherwise the program has replaced the function itself
        if not wraps and (held := vars(owner)).get(name) is self:
            if self.own is not None:
                _put(owner, name, self.own)
            elif isinstance(owner, type):  # the function is inherited
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


STAND_INS.add(Patched)

Patches = Sequence[tuple[Any, str, Callable[..., Any]]]
"""Tuples of an owner, a name, and the wrapper or replacement for ``owner.name``."""


@contextmanager
def patched(functions: Patches, *, replaces: bool = False, aside: Callable[[], bool] | None = None) -> Iterator[None]:
    """Within this context, this thread's calls of each ``owner.name`` go to the result of its ``Wrap``.

    With ``replaces``, the calls go to the given function itself. While ``aside`` returns True, for example in a
    compiler that is tracing, calls go to the original. The last context to end restores the original. The owner's
    dictionary is read directly, and that of an instance is written directly, because the owner's ``__setattr__`` may do
    anything.
    """
    thread = threading.get_ident()
    undo: list[tuple[Patched, Callable[..., Any]]] = []
    kinds: list[type] = []

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
                if one.own is None and not isinstance(owner, type):
                    kinds += copying.enter((type(owner),), is_on_loan)
        yield
    finally:
        with LOCK:
            try:
                undo_all(undo, take_off)
            except BaseException:
                undo_all(undo, take_off)  # again, if an interrupt came before the first call began
                raise
            finally:
                copying.leave(kinds)


def listening(owner: Any, name: str, listener: Callable[..., Any]) -> AbstractContextManager[None]:
    """Within this context, this thread's calls of one function become ``listener(next, *args, **kwargs)``, in which
    ``next`` is the function that they called before.
    """
    return patched([(owner, name, lambda following: functools.partial(listener, following))])


def replaced(functions: Patches, aside: Callable[[], bool] | None = None) -> AbstractContextManager[None]:
    """Within this context, this thread's calls of each ``owner.name`` go to the given function instead."""
    return patched(functions, replaces=True, aside=aside)


def original(owner: Any, name: str) -> Any:
    """Return the original function, even if it is patched."""
    found = getattr(owner, name)
    if type(found) is MethodType and not STOOD:  # usually the method is not patched
        return found
    if isinstance(found, Patched):
        return found.original
    inner = STANDS_FOR.get(found.__func__) if isinstance(found, MethodType) else None
    return found if inner is None else MethodType(inner, found.__self__)


def definer_of(kind: type, name: str) -> type:
    """Return the class in the hierarchy of ``kind`` that defines an attribute."""
    return next(base for base in kind.__mro__ if name in vars(base))


def is_on_loan(value: Any) -> bool:
    """Does an object have this method only while it is patched, and inherit it otherwise?"""
    return issubclass(type(value), Patched) and value.own is None


def _put(owner: Any, name: str, value: Any) -> None:
    if isinstance(owner, type):
        setattr(owner, name, value)
    else:
        vars(owner)[name] = value
