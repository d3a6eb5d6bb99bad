"""The calls in a journal: the functions that are called in place of others, and the reports about these calls.

A known function is found by its identity. If a call may write to tensors, earlier reports are processed first
(``Journal.settle``).
"""

from __future__ import annotations

import functools
import sys
from abc import abstractmethod
from collections.abc import Callable, Sequence
from itertools import chain, compress, repeat
from operator import is_
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

from backprobe.backends.facts import Effect
from backprobe.record.containers import SIMPLE
from backprobe.source import frame_builtins
from backprobe.source.copies import Copy
from backprobe.source.followed_calls import plain_function
from backprobe.source.listener import NO_CALL
from backprobe.tracing.contents import MAPPINGS
from backprobe.tracing.course import OF_MODULE, Courses
from backprobe.tracing.journal_reading import Reading
from backprobe.tracing.lent_copies import Known, LentCopies
from backprobe.tracing.log import CALLED, MENTIONED, ScopeKind
from backprobe.tracing.scope import HOMES, Scope

NOBODY = object()
"""Called by no journalling function."""

CHANGEABLE = frozenset({list, set, *MAPPINGS})
"""Types of containers that can be changed."""


class JournalCalls(list[Any]):
    """The part of a journal that handles the calls of its code."""

    trace: Any
    reading: Reading
    courses: Courses
    kinds: list[ScopeKind]
    awaited: Any
    reads: dict[tuple[type, str], tuple[int, str]]
    functions: dict[int, Known]
    known: dict[int, Known]
    of_modules: dict[int, tuple[Any, ...]]
    """The items for calls of modules that write nothing unobserved, by the identity of the module."""

    lent: LentCopies
    is_live: bool
    hooks_of: Callable[[Any], Sequence[Any]]

    @abstractmethod
    def _follow(self, function: Any) -> Any:
        """The journalling version of a function; None if it is not followed."""

    @abstractmethod
    def _scope(self) -> Scope:
        """The scope of the running code, with all earlier reports processed."""

    @abstractmethod
    def _stamp(self) -> None:
        """Note the versions of the tensors that were bound so far: unknown code runs now."""

    @abstractmethod
    def _read(self) -> None:
        """Process the reports of a live journal."""

    def call(self, function: Any, flagged: bool = False, at: int = NO_CALL, /) -> Any:
        """The function to call in place of ``function``, like ``Scope.call``."""
        if self.is_live:
            return self._scope().call(function, flagged, at)
        self.awaited = NOBODY
        if not flagged:
            said = self.of_modules.get(id(function))
            if said is not None and not any(self.hooks_of(function)):
                self.awaited = function
                self.extend(said)
                return function
            known = self.known.get(id(function))
            if known is not None and (instead := self._call_known(*known)) is not None:
                return instead
        trace, kind, follows = self.trace, type(function), self.kinds[-1].follows
        if kind is MethodType and follows and (followed := self._follow_method(function)) is not None:
            return followed
        if kind is BuiltinFunctionType:
            owner = function.__self__
            home = type(owner)
            key: Any = owner if home in HOMES else home, function.__name__, flagged
        elif (plain := plain_function(function)) is not None:
            code = plain.__code__
            if follows and id(code) in trace.own and (followed := self._follow(function)) is not None:
                self.extend((CALLED, ""))
                return followed
            owner = type(function.__self__) if kind is MethodType else None
            key = id(code), owner, plain.__module__, plain.__name__, flagged, follows
        elif kind is type:
            key = function, flagged
        else:
            return self._call_object(function, flagged, at)
        found = trace.known_calls.get(key)
        if found is None:
            return self._call_unknown(function, flagged, at)
        origin, effect, _ = found
        if not flagged:
            self._remember(function, origin, effect)
        if effect is not Effect.READS:
            return self._call_writing(function, origin, effect, flagged, at)
        self.extend((CALLED, origin))
        return function

    def _follow_method(self, method: MethodType) -> Any:
        # The journalling version of a method that was followed before.
        plain = method.__func__
        copy = self.lent.copies.get((plain, False)) if type(plain) is FunctionType else None
        if copy is None:
            return None
        self.awaited = copy
        self.extend((CALLED, ""))
        return MethodType(copy.function, method.__self__)

    def _call_known(self, function: Any, said: tuple[Any, ...], how: Any) -> Any:
        # The function to call in place of one that was called before; None if what is known no longer applies.
        if type(how) is Copy:
            if not self.kinds[-1].follows:
                return None
            self.awaited, function = how, how.function
        elif how is Effect.UNKNOWN:
            self._stamp()
        elif how is Effect.AS_ASKED:
            function = functools.partial(self._call_as_asked, function)
        self.extend(said)
        return function

    def _remember(self, function: Any, origin: str, effect: Effect) -> None:
        # Remember the journal's items for calls of this function, by its identity. Methods of objects with state are
        # left out.
        kind = type(function)
        owner = function.__self__ if kind is BuiltinFunctionType else None
        if type(owner) in self.trace.ordinary:
            if effect is Effect.READS:
                self.reads[type(owner), function.__name__] = CALLED, origin
        elif effect is not Effect.WRITES and (
            owner is None or type(owner) is ModuleType or is_of_module(owner)
            if kind is BuiltinFunctionType
            else self.kinds[-1].follows and is_of_module(function)
        ):
            self.functions[id(function)] = self.known[id(function)] = function, (CALLED, origin), effect
            if effect is Effect.READS:
                self.courses.readers[id(function)] = CALLED, origin

    def _call_object(self, function: Any, flagged: bool, at: int) -> Any:
        trace, kind = self.trace, type(function)
        known = trace.known_calls.get((kind, getattr(kind, "__call__", None)))  # noqa: B004  # see ``way_of``
        if known is None:
            return self._call_unknown(function, flagged, at)
        effect = trace.effect(function, flagged)
        if effect is Effect.READS and function in self.reading.paths:
            path = self.reading.paths[function]
            said = self.courses.of_modules[path] = CALLED, known[0], OF_MODULE, path
            self.of_modules[id(function)] = said
            self.extend(said)
            self.awaited = function
            return function
        if effect is Effect.WRITES or (effect is Effect.UNKNOWN and self._may_change(function)):
            return self._scope().call(function, flagged, at)
        return functools.partial(self._call_module, self._call_writing(function, known[0], effect, flagged, at))

    def _call_module(self, module: Any, /, *args: Any, **kwargs: Any) -> Any:
        result = module(*args, **kwargs)
        self.extend((MENTIONED, result))
        if self.is_live:
            self._read()
        return result

    def _call_writing(self, function: Any, origin: str, effect: Effect, flagged: bool, at: int) -> Any:
        if effect is Effect.WRITES or (effect is Effect.UNKNOWN and self._may_change(function)):
            return self._scope().call(function, flagged, at)
        if effect is Effect.UNKNOWN:
            self._stamp()
        self.extend((CALLED, origin))
        if effect is Effect.AS_ASKED:
            return functools.partial(self._call_as_asked, function)
        if type(function) is BuiltinFunctionType and type(function.__self__) in CHANGEABLE:
            return functools.partial(self._call_of_container, function)
        return function

    def _may_change(self, function: Any) -> bool:
        # Is it a method of a tensor, which may change the tensor? Then earlier reports are processed first.
        return type(function) is BuiltinFunctionType and type(function.__self__) in self.trace.ordinary

    def _call_of_container(self, method: Any, /, *args: Any, **kwargs: Any) -> Any:
        # The method may change its container. If the container or an argument may hold tensors, earlier reports are
        # processed first. Otherwise it is enough that the journal gets a copy of the container.
        held = method.__self__
        values = held.values() if isinstance(held, dict) else held
        kinds = {*map(type, chain(values, args, kwargs.values()))}
        if self.is_live or not (kinds <= SIMPLE or kinds <= SIMPLE | self.trace.bare):
            self._scope().dirty = True
        else:
            for at in compress(range(len(self)), map(is_, self, repeat(held))):
                self[at] = held.copy()
        return method(*args, **kwargs)

    def _call_as_asked(self, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        if self.is_live or self.trace.targets(function, args, kwargs):
            return self._scope()._call_as_asked(function, *args, **kwargs)
        return function(*args, **kwargs)

    def _call_unknown(self, function: Any, flagged: bool, at: int) -> Any:
        is_builtin = type(function) is BuiltinFunctionType
        if is_builtin and function in frame_builtins.LOOKS_AT_FRAME:
            return frame_builtins.seen_by(function)
        if not is_builtin and self.kinds[-1].follows and (followed := self._follow(function)) is not None:
            self.extend((CALLED, ""))
            return followed
        return self._scope().call(function, flagged, at)


def is_of_module(function: Any) -> bool:
    """Is it a class, or a function without a closure, that is found by name in its imported module?"""
    if type(function) is not type and (type(function) is not FunctionType or function.__closure__ is not None):
        return False
    module = sys.modules.get(function.__module__)
    return module is not None and vars(module).get(function.__qualname__) is function
