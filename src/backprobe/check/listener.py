"""The listener of a program under check: each call of the program is made here, and checked when it has returned."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from types import BuiltinFunctionType, BuiltinMethodType, FunctionType, MethodType
from typing import Any

from backprobe.backends.recheck import Recheck, RecordedCall
from backprobe.check.results import CheckResults
from backprobe.errors import NothingToDifferentiate
from backprobe.probe.request import name_of
from backprobe.record.names import quote
from backprobe.source import frame_builtins
from backprobe.source.followed_calls import FollowedCalls
from backprobe.source.listener import NO_CALL, CodeListener
from backprobe.source.reporting import reporting
from backprobe.source.sites import CallSite, Site, operator_of
from backprobe.source.user_code import innermost, package
from backprobe.tracing.scope import LOOKS_AT_FRAME
from backprobe.tracing.values import ScopeId


class CallListener(CodeListener):
    """One entry of a function, and the calls that it makes."""

    def __init__(self, program: CheckedProgram, scope: ScopeId, sites: Sequence[Site]) -> None:
        self.program, self.scope, self.sites = program, scope, sites
        self.calling: CallSite | None = None  # the call that is being made

    def call(self, function: Any, may_write: bool = False, at: int = NO_CALL, /) -> Any:
        """What to call instead of a function: its reporting version, or what calls and checks it."""
        if type(function) is BuiltinFunctionType and function in LOOKS_AT_FRAME:
            return frame_builtins.seen_by(function)
        program = self.program
        for position, one in enumerate(program.skipped):
            if _is(function, one):
                program.skips[position] += 1
                return functools.partial(program.skip, function)
        self.calling = self._call_site(at)
        followed = program.follow(self, function)
        if followed is not None:
            return followed
        if isinstance(function, type):
            return functools.partial(program.instantiate, function) if runs_user_code(function) else function
        return functools.partial(program.call, self.scope, self.calling, function)

    def operate(self, at: int, /, *operands: Any) -> Any:
        site = self._call_site(at)
        return self.program.call(self.scope, site, operator_of(site), *operands)

    def bind(self, at: int, value: Any, /) -> Any:
        self.scope.next_count(self.sites[at].local)
        return value

    name = wrote = bind

    def _call_site(self, at: int) -> CallSite:
        site = self.sites[at]
        assert isinstance(site, CallSite)
        return site


class CheckedProgram(FollowedCalls[CallListener | None]):
    """One run of a program: its calls are made here, and checked.

    Functions are followed as when they are recorded, but for those whose derivative is their own. A function in
    ``skipped`` is not checked: it is given as the program calls it, or as a class that it belongs to.
    """

    def __init__(
        self, calls: Recheck, results: CheckResults, home: str | None, paths: Mapping[int, str], skipped: Sequence[Any]
    ) -> None:
        super().__init__(calls, results.note, home)
        self.calls, self.results, self.paths, self.skipped = calls, results, paths, skipped
        self.skips = [0] * len(skipped)  # how often each was called
        self.entered: dict[str, int] = {}
        self.last: tuple[ScopeId, Site] | None = None

    def run(self, target: Any, inputs: Mapping[str, Any]) -> Any:
        """Run a target on its inputs: followed, or itself one call that is checked."""
        positional = [value for name, value in inputs.items() if name.isdigit()]
        keywords = {name: value for name, value in inputs.items() if not name.isdigit()}
        function = self.follow(None, target)
        if function is None:
            site = CallSite("", 0, "", spelled=name_of(target))
            function = CallListener(self, ScopeId(None, "", 0), (site,)).call(target, False, 0)
        result = function(*positional, **keywords)
        if inspect.isgenerator(result) or inspect.iscoroutine(result):
            result.close()
            raise NothingToDifferentiate(
                f"{name_of(target)} returns a {type(result).__name__}, which has computed nothing yet",
                asked=f"bp.check({name_of(target)})", next="check a function that runs it to its end",
            )  # fmt: skip
        return result

    # calls

    def call(self, scope: ScopeId, site: CallSite, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Make one of the program's calls, and check it."""
        self.last = scope, site
        since = self.calls.now()
        made = self.calls.record(function, args, kwargs)
        result = function(*args, **kwargs)
        if isinstance(made, RecordedCall):
            made = made.returned(result)
        elif self.calls.now() == since:
            made = None
        if made is not None:
            self.calls.account_for(since)
            self.results.add(scope, site, made)
        return result

    def skip(self, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Make a call that is not checked, as asked."""
        since = self.calls.now()
        result = function(*args, **kwargs)
        self.calls.account_for(since)
        return result

    def instantiate(self, kind: type, /, *args: Any, **kwargs: Any) -> Any:
        """Make an object of a class that the user wrote, which may compute."""
        since = self.calls.now()
        made = kind(*args, **kwargs)
        if self.calls.now() > since:
            self.note("class_not_followed", name=kind.__qualname__)
        return made

    # functions that are followed

    def follow(self, caller: CallListener | None, function: Any) -> Any:
        return None if self.calls.is_whole(function) else super().follow(caller, function)

    def is_followed(self, function: Any, inner: FunctionType) -> bool:
        return self.calls.opens(getattr(function, "__self__", None)) or super().is_followed(function, inner)

    def reporting(self, function: Any, caller: CallListener | None, label: str) -> Any:
        """A module of the model that is checked reports under its path; at the root a function has no name."""
        own = self.paths.get(id(getattr(function, "__self__", None)), "" if caller is None else None)

        parent = None if own is not None or caller is None else caller.scope

        def open_with(name: str, file: str, sites: tuple[Site, ...]) -> Callable[[], CallListener]:
            path = f"/{quote(label or name)}" if own is None else own
            return lambda: CallListener(self, self._entered(parent, path, file), sites)

        return reporting(function, open_with, calls=True)

    def _entered(self, parent: ScopeId | None, path: str, file: str) -> ScopeId:
        siblings = self.entered if parent is None else parent.entered
        siblings[path] = siblings.get(path, 0) + 1
        return ScopeId(parent, path, siblings[path] - 1, file)

    def exchanged(self, caller: CallListener | None, argument: Any) -> Any:
        """A function that is given to another: one that is not followed is checked whenever that calls it."""
        given = super().exchanged(caller, argument)
        if given is not argument or not callable(argument) or isinstance(argument, type):
            return given
        assert caller is not None
        assert caller.calling is not None
        site = dataclasses.replace(caller.calling, arguments=())  # those are what the other function is given
        return functools.partial(self.call, caller.scope, site, argument)


def runs_user_code(kind: type) -> bool:
    """Has the user written code that runs when an object of the class is made?"""
    for name in ("__init__", "__post_init__", "__new__"):
        inner = innermost(getattr(kind, name, None))
        file = inner.__code__.co_filename if inner is not None else "<"
        if not file.startswith("<") and package(file) is None:
            return True
    return False


METHODS = (MethodType, BuiltinMethodType)


def _is(function: Any, one: Any) -> bool:
    if isinstance(function, METHODS):  # each look at a method makes another object
        return function.__self__ is one or (isinstance(one, METHODS) and function == one)
    return function is one or type(function) is one
