"""Following the calls of recorded code: the user's functions run as copies that report to the same trace."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import TYPE_CHECKING, Any

from backprobe.errors import NoSource
from backprobe.record.reasons import Note
from backprobe.source.reporting import reporting
from backprobe.source.user_code import innermost, package
from backprobe.tracing.scope import Scope, Value

if TYPE_CHECKING:
    from backprobe.tracing.trace import Trace

BUILTIN = (BuiltinFunctionType, type)
HIGHER_ORDER = (map, filter, functools.reduce)


class Following:
    """Which of the functions that one program calls are followed, and what is run in their place."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace

    def follow(self, scope: Scope, function: Any) -> Any:
        """The reporting version of one of the user's functions; None where ``function`` is not that."""
        if isinstance(function, BUILTIN):
            return functools.partial(self._higher_order, scope, function) if function in HIGHER_ORDER else None
        higher_order = self.trace.tape.higher_order(function)
        if higher_order is not None:
            return functools.partial(self._higher_order, scope, higher_order)
        label = ""
        # in the model form a module has its own path, whoever calls it
        called: tuple[Any, Any] | None = self.trace.tape.called(function, self.trace.selection.in_function)
        inner, call = innermost(function), None
        if called is not None or inner is None:
            if called is None:
                self._note_hidden(function)
                called = MethodType(type(function).__call__, function), None
            if getattr(called[0], "__self__", None) is function:
                label = type(function).__name__
            function, call = called
            inner = innermost(function)
        if inner is None or not self._is_users(inner):
            return None
        if self.note_compiled(function):
            return None
        try:
            followed = self.reporting(function, scope, label)
        except NoSource as error:
            self.trace.notes[Note("not_followed", {"name": inner.__qualname__, "why": error.headline})] = None
            return None
        return followed if call is None else functools.partial(self.call_settled, call, followed)

    def reporting(self, function: Any, scope: Scope, label: str) -> Any:
        """The reporting version of a function that is called from a scope. Raises NoSource."""
        return reporting(function, self.trace.opener(scope, label), operations=self.trace.operations)

    def note_compiled(self, function: Any) -> bool:
        """Is it a callable whose code the framework has fixed? Then what is inside it is not seen."""
        is_compiled = self.trace.tape.is_compiled(function)
        if is_compiled:
            name = getattr(function, "__qualname__", None) or type(function).__name__
            self.trace.notes[Note("compiled_not_followed", {"name": name})] = None
        return is_compiled

    def _note_hidden(self, function: Any) -> None:
        """A decorator that is no Python function, such as lru_cache, hides the user's function inside it."""
        try:
            held = object.__getattribute__(function, "__dict__").get("__wrapped__")  # the object itself is not asked
        except AttributeError:
            return
        wrapped = innermost(held)
        if wrapped is not None and self._is_users(wrapped):
            kind = type(function).__name__
            self.trace.notes[Note("hidden_in_object", {"name": wrapped.__qualname__, "kind": kind})] = None

    def _is_users(self, function: FunctionType) -> bool:
        installed = package(function.__code__.co_filename)
        return installed is None or (installed != "" and installed == self.trace.home)

    def _higher_order(self, scope: Scope, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        followed = functools.partial(self._followed, scope)
        return self.call_settled(
            function, *map(followed, args), **{name: followed(value) for name, value in kwargs.items()}
        )

    def _followed(self, scope: Scope, argument: Any) -> Any:
        """An argument with the user's functions in it exchanged for reporting ones."""
        if isinstance(argument, tuple | list) and argument and all(map(callable, argument)):
            return [self._followed(scope, one) for one in argument]
        return (self.follow(scope, argument) or argument) if callable(argument) else argument

    def call_settled(self, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Call what may run a function several times and keep but one of these runs: the others leave no trace."""
        first = len(self.trace.values)
        result = function(*args, **kwargs)
        made = [value for value in self.trace.values[first:] if value.capture is not None]
        lost = {value: None for value in made if self.trace.tape.is_lost(value.capture)}
        if lost:
            kept = {scope: None for v in made if v not in lost for name in v.names for scope in _and_callers(name[0])}
            again = {(scope.parent, scope.path) for scope in kept}
            thrown = [v for v in lost if any(scope not in kept and (scope.parent, scope.path) in again
                                             for name in v.names for scope in _and_callers(name[0]))]  # fmt: skip
            self._drop(thrown, self.trace.values[first:])
        return result

    def _drop(self, lost: Sequence[Value], among: Sequence[Value]) -> None:
        gone = set(lost)
        scopes = {scope for value in lost for scope, *_ in value.names if scope is not None}
        left = {scope: None for value in among if value.capture is not None and value not in gone
                for scope, *_ in value.names if scope is not None}  # fmt: skip
        dead = scopes - left.keys()
        gone.update(value for value in among if {scope for scope, *_ in value.names} <= dead)
        for scope in sorted(dead, key=lambda scope: -scope.count):
            siblings = scope.parent.entered if scope.parent is not None else self.trace.entered
            siblings[scope.path] -= 1
            for other in left:
                if other.parent is scope.parent and other.path == scope.path and other.count > scope.count:
                    other.renumber(other.count - 1)
        for scope in left:
            scope.renumber(scope.count)  # below one that was renumbered
        for value in gone:
            value.names.clear()
        self.trace.values = [value for value in self.trace.values if value not in gone]


def _and_callers(scope: Scope | None) -> Iterator[Scope]:
    """A scope and those that it was entered from."""
    while scope is not None:
        yield scope
        scope = scope.parent
