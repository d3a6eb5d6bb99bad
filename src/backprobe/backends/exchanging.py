"""Patches one method of many instances together, such as the forwards of all modules of a model."""

from __future__ import annotations

import gc
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from itertools import repeat
from operator import attrgetter, is_
from types import FunctionType, MethodType
from typing import Any
from weakref import ReferenceType, ref

from backprobe.backends import copying
from backprobe.backends.patching import LOCK, Patched, is_on_loan, replaced
from backprobe.source.user_code import STAND_INS

exhaust = deque[Any](maxlen=0).extend
"""Run an iterator to its end, in C."""


class Together:
    """The data that the patches of one ``exchanged`` share."""

    def __init__(self, name: str, aside: Callable[[], bool] | None, called_in: str) -> None:
        """See ``exchanged``."""
        self.name, self.aside, self.called_in = name, aside, called_in
        self.live = {threading.get_ident()}  # the thread whose calls are redirected; empty once the patches are removed
        self.copies: list[ReferenceType[Any]] = []  # deep copies of the instances

    def forget_copies(self) -> None:
        """Remove the methods that deep copies hold in their dictionaries, if they inherit the same ones."""
        for reference in self.copies:
            held = vars(copied) if (copied := reference()) is not None else {}
            method = held.get(self.name)
            if type(method) is MethodType and method.__func__ is getattr(type(copied), self.name, None):
                del held[self.name]


class Exchanged(Patched):
    """The only patch of a method that an instance inherits. It becomes a ``Patched`` when another patch is added.

    ``given`` is called with the instance, in place of ``function``, the method of its class.
    """

    own = None

    def __init__(self, owner: Any, function: Callable[..., Any], given: Callable[..., Any], together: Together) -> None:
        self.owner, self.function, self.given, self.together = owner, function, given, together
        self.__module__, self.__doc__ = function.__module__, function.__doc__

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        together, owner = self.together, self.owner
        if together.aside is not None and together.aside():  # first: a compiler may not know what is asked below
            return self.function(owner, *args, **kwargs)
        frame = sys._getframe(1)
        if frame.f_code.co_filename == together.called_in:
            caller = frame.f_locals.get("self", owner)
            if caller is not owner and self._is_held_by_copy(caller):
                return self._call_of_copy(caller, *args, **kwargs)
        elif not together.live and (holder := self._holder()) is not None:
            return self._call_of_copy(holder, *args, **kwargs)
        function = getattr(type(owner), together.name)  # the program may have patched its class, or given it another
        if threading.get_ident() not in together.live or function is not self.function:
            return function(owner, *args, **kwargs)
        return self.given(owner, *args, **kwargs)

    def _is_held_by_copy(self, other: Any) -> bool:
        # Is this a shallow copy of the instance? Its dictionary is a copy, with this patch and the same containers. The
        # program may also have given the method of one object to another, which has containers of its own.
        held, own = getattr(other, "__dict__", {}), vars(self.owner)
        return held.get(self.together.name) is self and any(
            isinstance(value, dict) and own.get(name) is value for name, value in held.items()
        )

    def _call_of_copy(self, other: Any, /, *args: Any, **kwargs: Any) -> Any:
        del vars(other)[self.together.name]  # it inherits the method
        return getattr(other, self.together.name)(*args, **kwargs)

    def _holder(self) -> Any:
        # The patch was removed. If it is called nevertheless, a shallow copy has it, or the program holds it itself.
        # Return the copy; None if there is none, or more than one.
        found = [
            each
            for held in gc.get_referrers(self)
            for each in ((held,) if type(held) is not dict else gc.get_referrers(held))
            if each is not self.owner and self._is_held_by_copy(each)
        ]
        return found[0] if len(found) == 1 else None

    def __getattr__(self, name: str) -> Any:
        # The original is a new object each time, so none is made before it is needed.
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


STAND_INS.add(Exchanged)


@contextmanager
def exchanged(
    owners: Sequence[Any],
    name: str,
    given: Sequence[FunctionType],
    aside: Callable[[], bool] | None = None,
    called_in: str = "",
) -> Iterator[None]:
    """Like ``replaced``, for one method of many instances, such as the forwards of a model's modules.

    ``given`` are the functions that are called, with the instance, in place of the plain functions that the instances
    inherit under this name. All patches are added, and removed, together. Only instances that have a function of their
    own, such as another patch, are patched one by one. ``called_in`` is the file of a framework whose code calls the
    method on ``self``. A call from there shows whether ``self`` is a shallow copy of an instance.
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
        kinds = copying.enter({*map(type, owners)}, is_on_loan)
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
                _remove(made, held, name, thread)  # if the first call was interrupted
                raise
            finally:
                together.live.clear()
                copying.leave(kinds)
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
