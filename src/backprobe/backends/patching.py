"""Patches functions temporarily for one thread. Calls in this thread are redirected, and other threads call the
original.
"""

from __future__ import annotations

import copy
import functools
import gc
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import repeat
from operator import attrgetter, is_
from types import FunctionType, MethodType
from typing import Any
from weakref import ReferenceType, WeakKeyDictionary, ref

from backprobe.backends.undoing import undo_all

Wrap = Callable[[Callable[..., Any]], Callable[..., Any]]
"""(next function) -> the function that is called instead."""

LOCK = threading.Lock()
STANDS_FOR: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()
"""The functions that replace others in a class (see ``dispatching``), each with the original function."""
STOOD: list[str] = []
"""The name of the last redirected method, or nothing. Testing this list is faster than testing whether the dictionary
is empty.
"""


exhaust = deque[Any](maxlen=0).extend
"""Run an iterator to its end, in C."""


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


class Together:
    """The data that is shared by methods which are patched together by one ``exchanged``."""

    def __init__(self, name: str, aside: Callable[[], bool] | None, called_in: str) -> None:
        """``aside`` and ``called_in`` are the arguments of ``exchanged``."""
        self.name, self.aside, self.called_in = name, aside, called_in
        self.live = {threading.get_ident()}  # the thread whose calls are redirected; empty afterwards
        self.copies: list[ReferenceType[Any]] = []  # deep copies of the instances

    def forget_copies(self) -> None:
        """Remove the patched methods from deep copies of the instances, because the copies inherit the method."""
        for reference in self.copies:
            held = vars(copied) if (copied := reference()) is not None else {}
            method = held.get(self.name)
            if type(method) is MethodType and method.__func__ is getattr(type(copied), self.name, None):
                del held[self.name]


class Exchanged(Patched):
    """The only patch of a method that an instance inherits from its class. It becomes a ``Patched`` when another patch
    is added.

    A call runs ``given`` with the instance, instead of ``function``, which is the method of the class.
    """

    own = None

    def __init__(self, owner: Any, function: Callable[..., Any], given: Callable[..., Any], together: Together) -> None:
        self.owner, self.function, self.given, self.together = owner, function, given, together
        self.__module__, self.__doc__ = function.__module__, function.__doc__

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        together, owner = self.together, self.owner
        if together.aside is not None and together.aside():  # first, because compilers cannot trace the code below
            return self.function(owner, *args, **kwargs)
        frame = sys._getframe(1)
        if frame.f_code.co_filename == together.called_in:
            caller = frame.f_locals.get("self", owner)
            if caller is not owner and self._is_held_by_copy(caller):
                return self._call_of_copy(caller, *args, **kwargs)
        elif not together.live and (holder := self._holder()) is not None:
            return self._call_of_copy(holder, *args, **kwargs)
        function = getattr(type(owner), together.name)  # the program may have patched the class or replaced it
        if threading.get_ident() not in together.live or function is not self.function:
            return function(owner, *args, **kwargs)
        return self.given(owner, *args, **kwargs)

    def _is_held_by_copy(self, other: Any) -> bool:
        # Is ``other`` a shallow copy of the instance? The dictionary of a shallow copy contains this patch, and the
        # same containers as the original's. If the program has only assigned the method to another object, that object
        # has containers of its own.
        held, own = getattr(other, "__dict__", {}), vars(self.owner)
        return held.get(self.together.name) is self and any(
            isinstance(value, dict) and own.get(name) is value for name, value in held.items()
        )

    def _call_of_copy(self, other: Any, /, *args: Any, **kwargs: Any) -> Any:
        del vars(other)[self.together.name]  # the copy then inherits the method of its class
        return getattr(other, self.together.name)(*args, **kwargs)

    def _holder(self) -> Any:
        # Return the shallow copy whose method was called, although the patch was removed from the original; None if the
        # program has kept the bound method itself.
        found = [
            each
            for held in gc.get_referrers(self)
            for each in ((held,) if type(held) is not dict else gc.get_referrers(held))
            if each is not self.owner and self._is_held_by_copy(each)
        ]
        return found[0] if len(found) == 1 else None

    def __getattr__(self, name: str) -> Any:
        # Create the original method only when it is needed, because each access creates a new object.
        if name == "name":
            return self.together.name
        original = MethodType(self.function, self.owner)
        return original if name in ("original", "__wrapped__") else getattr(original, name)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        copied = memo.get(id(self.owner))
        if copied is not None:
            self.together.copies.append(ref(copied))
        return super().__deepcopy__(memo)

    def put_on(self, thread: int, given: Callable[..., Any], replaces: bool) -> None:
        changed: Any = self
        first, together = MethodType(self.given, self.owner), self.together
        changed.own, changed.given, changed.original = None, first, self.original
        changed.name, changed.aside = together.name, together.aside
        changed.wraps = [(own, first, True) for own in together.live]
        changed.calls = dict.fromkeys(together.live, first)
        changed.__wrapped__, changed.__class__ = self.original, Patched
        changed.put_on(thread, given, replaces)


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
                undo_all(undo, take_off)  # again, if an interrupt came before the first call began
                raise


@contextmanager
def exchanged(
    owners: Sequence[Any],
    name: str,
    given: Sequence[FunctionType],
    aside: Callable[[], bool] | None = None,
    called_in: str = "",
) -> Iterator[None]:
    """Like ``replaced``, for one method of many instances, such as the forwards of a model's modules.

    ``given`` has a function for each instance. It is called with the instance, instead of the method that the instance
    inherits under this name. All patches are added and removed together. An instance that has a function of its own
    under this name, such as another patch, is patched separately. ``called_in`` is a file of the framework. If code in
    this file makes the call, its ``self`` shows whether a shallow copy of the instance is called.
    """
    thread, together = threading.get_ident(), Together(name, aside, called_in)
    with LOCK:
        held: Any = [*map(vars, owners)]
        own = [at for at, one in enumerate(held) if name in one]
        others = [(owners[at], name, MethodType(given[at], owners[at])) for at in own]
        if own:
            rest = [at for at in range(len(owners)) if at not in own]
            owners, given, held = ([*map(each.__getitem__, rest)] for each in (owners, given, held))
        functions = map(attrgetter(name), map(type, owners))
        made = [*map(Exchanged, owners, functions, given, repeat(together))]
    try:
        with LOCK:
            exhaust(map(dict.__setitem__, held, repeat(name), made))
        with replaced(others, aside) if others else nullcontext():
            yield
    finally:
        with LOCK:
            try:
                _remove(made, held, name, thread)
            except BaseException:
                _remove(made, held, name, thread)  # again, if an interrupt stopped the first call
                raise
            finally:
                together.live.clear()
        together.forget_copies()


def _remove(made: Sequence[Exchanged], held: Sequence[Any], name: str, thread: int) -> None:
    if all(map(is_, map(dict.get, held, repeat(name)), made)) and {*map(type, made)} <= {Exchanged}:
        exhaust(map(dict.pop, held, repeat(name)))
        return
    for one, own in zip(made, held, strict=True):
        if type(one) is not Exchanged:
            one.take_off(thread, one.given)
        elif own.get(name) is one:
            del own[name]


def listening(owner: Any, name: str, listener: Callable[..., Any]) -> AbstractContextManager[None]:
    """Within this context, calls of one function become ``listener(next, *args, **kwargs)``, in which ``next`` is the
    original.
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


def _put(owner: Any, name: str, value: Any) -> None:
    if isinstance(owner, type):
        setattr(owner, name, value)
    else:
        vars(owner)[name] = value
