"""Follows calls in recorded code into the user's functions. Their variables get names below the caller's scope."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from types import FunctionType, MethodType
from typing import Any, Protocol

from backprobe.backends.capabilities import Staging
from backprobe.backends.protocol import Tape
from backprobe.errors import NoSource
from backprobe.findings.phrasing import listed
from backprobe.record.containers import leaves
from backprobe.record.patterns import Selection
from backprobe.source.copies import Copy
from backprobe.source.followed_calls import FollowedCalls
from backprobe.source.listener import Opener
from backprobe.source.reporting import reporting
from backprobe.source.sites import Site
from backprobe.source.user_code import innermost, package
from backprobe.tracing.log import ScopeKind
from backprobe.tracing.plan import Plan
from backprobe.tracing.reader import Reader
from backprobe.tracing.scope import Scope
from backprobe.tracing.values import ScopeId, Value
from backprobe.tracing.versions import Versions


class Program(Protocol):
    """The attributes and methods of a trace that this file needs."""

    operations: bool
    """Are unnamed operations recorded too, besides the values that statements bind?"""

    tape: Tape
    selection: Selection
    plan: Plan
    home: str | None
    versions: Versions

    def enter(self, caller: Scope, name: str, file: str, sites: Sequence[Site]) -> Scope: ...

    def kind_called(self, caller: Scope, name: str, file: str, sites: Sequence[Site]) -> ScopeKind: ...

    def entered(self, caller: int, kind: ScopeKind) -> Scope: ...

    def note(self, code: str, **fields: str) -> None: ...

    def read(self) -> Reader: ...


class Following(FollowedCalls[Scope]):
    """Lets functions of the program run as instrumented copies, which report to the caller's trace. Modules have paths
    of their own.
    """

    def __init__(self, trace: Program) -> None:
        super().__init__(trace.tape, trace.note, trace.home, follows_modules=trace.selection.in_function)
        self.trace = trace
        self.foreign, self.own, _ = trace.plan.codes(type(trace.tape), trace.home)

    def reporting(self, function: Any, caller: Any, label: str) -> Any:
        return reporting(function, self._opener(caller, label), operations=self.trace.operations)

    def _opener(self, caller: Scope, label: str) -> Opener:
        # Opens a scope each time when a function called from ``caller`` is entered.
        def open_with(name: str, file: str, sites: tuple[Site, ...]) -> Callable[[], Scope]:
            return partial(self.trace.enter, caller, label or name, file, sites)

        return open_with

    def follow_once(self, caller: Scope, function: Any) -> Any:
        """Like ``follow``, but the copy may be reused by another call as soon as the function has begun to run."""
        plain = function.__func__ if type(function) is MethodType else function
        if type(plain) is FunctionType and not plain.__dict__ and id(plain.__code__) in self.own:
            try:
                copy = self.trace.plan.copies.lend(plain, self.trace.operations)
            except NoSource:
                copy = None
            if copy is not None:
                copy.cell.cell_contents = partial(self._begun, copy, caller)
                return copy.function if plain is function else MethodType(copy.function, function.__self__)
        return self.follow(caller, function)

    def _begun(self, copy: Copy, caller: Scope) -> Scope:
        copy.give_back()
        kind = copy.kinds.get(caller.kind)
        if kind is None:
            kind = copy.kinds[caller.kind] = self.trace.kind_called(caller, copy.name, copy.file, copy.sites)
        return self.trace.entered(caller.number, kind)

    def handing(self, function: Any, forget: Callable[[], object]) -> Any:
        """Return a wrapper of a library's function, or the function itself if no note can be needed. The wrapper adds a
        note if the function receives or holds functions of the program and returns a tensor, because the calls of these
        functions are not recorded. If the framework stages programs, any result other than None or a function counts.
        """
        if not self.trace.selection.in_function:
            return function
        module = sys.modules.get(getattr(function, "__module__", None) or type(function).__module__)
        if not package(getattr(module, "__file__", None) or ""):
            return function
        return partial(self._hand, function, forget)

    def _hand(self, function: Any, forget: Callable[[], object], /, *args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        tape, owner = self.trace.tape, getattr(function, "__self__", None)
        held = {} if isinstance(owner, type) else getattr(owner, "__dict__", {})
        known = [(one, tape.called(one, True)) for one in (*args, *kwargs.values(), *held.values()) if callable(one)]
        given = [innermost(one if called is None else called[0]) for one, called in known]
        own = [one.__qualname__ for one in given if one is not None and self.is_followed(one, one)]
        if own:
            forget()
            is_result = result is not None and not callable(result)
            if is_result and (isinstance(tape, Staging) or any(tape.is_tensor(leaf) for _, leaf in leaves(result))):
                to = getattr(function, "__qualname__", type(function).__qualname__)
                self.trace.note("handed_on", names=listed(own), to=to)
        return result

    def call_settled(self, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Call a function that may run another function several times but use only one of these runs. Forget the other
        runs.
        """
        tape = self.trace.tape
        if not isinstance(tape, Staging):
            return function(*args, **kwargs)
        first = len(self.trace.read().naming.made)
        result = function(*args, **kwargs)
        reader, captures = self.trace.read(), self.trace.versions.captures
        among = reader.naming.made[first:]
        made = [value for value in among if value.number is not None]
        lost = {value: None for value in made if tape.is_discarded(captures[value.number or 0])}
        if lost:
            kept = {scope for v in made if v not in lost for scope in _scopes(v)}
            again = {(scope.parent, scope.path) for scope in kept}
            thrown = [
                v
                for v in lost
                if any(scope not in kept and (scope.parent, scope.path) in again for scope in _scopes(v))
            ]
            _drop(reader, thrown, among)
        return result


def _drop(reader: Reader, lost: Sequence[Value], among: Sequence[Value]) -> None:
    gone = set(lost)
    scopes = {scope for value in lost for scope, *_ in value.names if scope is not None}
    left = {
        scope: None
        for value in among
        if value.number is not None and value not in gone
        for scope, *_ in value.names
        if scope is not None
    }
    dead = scopes - left.keys()
    gone.update(value for value in among if {scope for scope, *_ in value.names} <= dead)
    for scope in sorted(dead, key=lambda scope: -scope.count):
        siblings = scope.parent.entered if scope.parent is not None else reader.entered
        siblings[scope.path] -= 1
        for other in left:
            if other.parent is scope.parent and other.path == scope.path and other.count > scope.count:
                other.renumber(other.count - 1)
    for scope in left:
        scope.renumber(scope.count)  # its parent was renumbered
    reader.naming.drop(gone)


def _scopes(value: Value) -> Iterator[ScopeId]:
    # Yield the scopes in which a value has names, each with its callers.
    for scope, *_ in value.names:
        yield from () if scope is None else scope.with_callers()
