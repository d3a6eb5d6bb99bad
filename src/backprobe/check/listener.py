"""The listener of a program under check: each call of the program is made here, and checked when it has returned."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from types import BuiltinFunctionType
from typing import Any

from backprobe.backends.recheck import Recheck, RecordedCall
from backprobe.check.skips import Skips
from backprobe.errors import NoSource
from backprobe.record.names import quote
from backprobe.record.reasons import Note, Reason
from backprobe.source import frame_builtins
from backprobe.source.followed_calls import FollowedCalls
from backprobe.source.listener import NO_CALL, CodeListener, Opener
from backprobe.source.reporting import reporting
from backprobe.source.sites import CallSite, Site, operator_of
from backprobe.source.user_code import innermost, package
from backprobe.tracing.scope import LOOKS_AT_FRAME

Check = Callable[["CallListener", CallSite, RecordedCall | Reason], None]
"""Takes each call that computes something differentiable: as an operation, or the reason why it can't be repeated."""


class CallListener(CodeListener):
    """One entry of a function, and the calls that it makes."""

    def __init__(
        self, program: CheckedProgram, caller: CallListener | None, path: str, file: str, sites: Sequence[Site]
    ) -> None:
        self.program, self.caller, self.path, self.file, self.sites = program, caller, path, file, sites
        self.calling: CallSite | None = None  # the call that is being made
        self.entered: dict[str, int] = {}
        self.counts: dict[str, int] = {}  # how often each local was bound
        siblings = caller.entered if caller is not None and path.startswith("/") else program.entered
        self.siblings, self.count = siblings, siblings.get(path, 0)
        siblings[path] = self.count + 1

    def full_name(self) -> str:
        """Its name as it is printed when the program is over: counted where there were several."""
        if not self.path:
            return ""
        above = self.caller.full_name() if self.caller is not None and self.path.startswith("/") else ""
        return f"{above}{self.path}" + (f"#{self.count}" if self.siblings[self.path] > 1 else "")

    def call(self, function: Any, may_write: bool = False, at: int = NO_CALL, /) -> Any:
        """What to call instead of a function: its reporting version, or what calls and checks it."""
        if type(function) is BuiltinFunctionType and function in LOOKS_AT_FRAME:
            return frame_builtins.seen_by(function)
        program = self.program
        if program.skips.takes(function):
            return functools.partial(program.skip, function)
        self.calling = self._call_site(at)
        followed = program.followed.follow(self, function)
        if followed is not None:
            return followed
        if isinstance(function, type):
            return functools.partial(program.instantiate, function) if runs_user_code(function) else function
        return functools.partial(program.call, self, self.calling, function)

    def operate(self, at: int, /, *operands: Any) -> Any:
        site = self._call_site(at)
        return self.program.call(self, site, operator_of(site), *operands)

    def bind(self, at: int, value: Any, /) -> Any:
        local = self.sites[at].local
        self.counts[local] = self.counts.get(local, 0) + 1
        return value

    name = wrote = bind

    def _call_site(self, at: int) -> CallSite:
        site = self.sites[at]
        assert isinstance(site, CallSite)
        return site


class CheckedProgram:
    """One run of a program, and the calls that it makes: each is passed on to ``check``."""

    def __init__(self, calls: Recheck, check: Check, home: str | None, paths: Mapping[int, str], skips: Skips) -> None:
        self.calls, self.check, self.skips = calls, check, skips
        self.followed = CallsToFollow(self, home, paths)
        self.notes: dict[Note, None] = {}
        self.entered: dict[str, int] = {}
        self.last: tuple[CallListener, Site] | None = None

    def note(self, code: str, **fields: str) -> None:
        self.notes[Note(code, fields)] = None

    def instantiate(self, kind: type, /, *args: Any, **kwargs: Any) -> Any:
        """Make an object of a class that the user wrote, which may compute."""
        since = self.calls.now()
        made = kind(*args, **kwargs)
        if self.calls.now() > since:
            self.note("class_not_followed", name=kind.__qualname__)
        return made

    def call(self, listener: CallListener, site: CallSite, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Make one of the program's calls, and check it."""
        self.last = listener, site
        since = self.calls.now()
        made = self.calls.record(function, args, kwargs)
        result = function(*args, **kwargs)
        if isinstance(made, RecordedCall):
            made = made.returned(result)
        elif self.calls.now() == since:
            made = None
        if made is not None:
            self.calls.account_for(since)
            self.check(listener, site, made)
        return result

    def skip(self, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Make a call that is not checked, as asked."""
        since = self.calls.now()
        result = function(*args, **kwargs)
        self.calls.account_for(since)
        return result


def runs_user_code(kind: type) -> bool:
    """Has the user written code that runs when an object of the class is made?"""
    for name in ("__init__", "__post_init__", "__new__"):
        inner = innermost(getattr(kind, name, None))
        file = inner.__code__.co_filename if inner is not None else "<"
        if not file.startswith("<") and package(file) is None:
            return True
    return False


class CallsToFollow(FollowedCalls[CallListener | None]):
    """Functions are followed as when they are recorded, but for those whose derivative is their own."""

    def __init__(self, program: CheckedProgram, home: str | None, paths: Mapping[int, str]) -> None:
        super().__init__(program.calls, program.note, home)
        self.program, self.calls, self.paths = program, program.calls, paths

    def opener(self, caller: CallListener | None, label: str) -> Opener:
        """What a function that is called reports to, whenever it is entered; at the root it has no name."""

        def open_with(name: str, file: str, sites: tuple[Site, ...]) -> Callable[[], CallListener]:
            path = "" if caller is None else f"/{quote(label or name)}"
            return lambda: CallListener(self.program, caller, path, file, sites)

        return open_with

    def reporting(self, function: Any, caller: CallListener | None, label: str) -> Any:
        return reporting(function, self.opener(caller, label), calls=True)

    def follow(self, caller: CallListener | None, function: Any) -> Any:
        if self.calls.is_whole(function):
            return None
        return self._opened(caller, function) if self.calls.opens(function) else super().follow(caller, function)

    def _opened(self, caller: CallListener | None, module: Any) -> Any:
        """A module whose forward is followed, under its path where it is one of the model's."""
        if self.note_compiled(module):
            return None
        called = self.calls.called(module, True)
        assert called is not None
        forward, call = called
        path = self.paths.get(id(module))
        try:
            followed = (
                self.reporting(forward, caller, type(module).__name__) if path is None
                else reporting(forward, self._module_opener(path), calls=True)
            )  # fmt: skip
        except NoSource as error:
            self.note("not_followed", name=path or type(module).__name__, why=error.headline)
            return None
        return functools.partial(call, followed)

    def _module_opener(self, path: str) -> Opener:
        return lambda name, file, sites: lambda: CallListener(self.program, None, path, file, sites)

    def exchanged(self, caller: CallListener | None, argument: Any) -> Any:
        """A function that is given to another: one that is not followed is checked whenever that calls it."""
        given = super().exchanged(caller, argument)
        if given is not argument or not callable(argument) or isinstance(argument, type):
            return given
        assert caller is not None
        assert caller.calling is not None
        site = dataclasses.replace(caller.calling, arguments=())  # those are what the other function is given
        return functools.partial(self.program.call, caller, site, argument)
