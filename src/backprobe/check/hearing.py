"""What rewritten code talks to where its calls are judged: it binds nothing, and hears of each call."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from types import BuiltinFunctionType
from typing import Any

from backprobe.backends.recheck import HOLDS, Calls, Operation
from backprobe.check.left_out import LeftOut
from backprobe.errors import NoSource
from backprobe.record.names import quote
from backprobe.record.reasons import Note
from backprobe.source import frame_builtins
from backprobe.source.listener import NO_CALL, CodeListener
from backprobe.source.reporting import reporting
from backprobe.source.sites import CallSite, Site, operator_of
from backprobe.source.user_code import innermost, package
from backprobe.tracing.followed_calls import Following
from backprobe.tracing.scope import LOOKS_AT_FRAME

Judge = Callable[["HearingScope", CallSite, Operation | str], None]
"""What is told of each call that was made: an operation to judge, or why it can't be."""


class HearingScope(CodeListener):
    """One entry of a function, and the calls that it makes."""

    def __init__(
        self, hearing: Hearing, parent: HearingScope | None, path: str, file: str, sites: Sequence[Any]
    ) -> None:
        self.hearing, self.parent, self.path, self.file, self.sites = hearing, parent, path, file, sites
        self.calling: Any = None  # the site of the call that is being made
        self.entered: dict[str, int] = {}
        self.counts: dict[str, int] = {}
        siblings = parent.entered if parent is not None and path.startswith("/") else hearing.entered
        self.siblings, self.count = siblings, siblings.get(path, 0)
        siblings[path] = self.count + 1

    def full_name(self) -> str:
        """Its name as it is printed when the program is over: counted where there were several."""
        if not self.path:
            return ""
        above = self.parent.full_name() if self.parent is not None and self.path.startswith("/") else ""
        return f"{above}{self.path}" + (f"#{self.count}" if self.siblings[self.path] > 1 else "")

    # calls

    def call(self, function: Any, may_write: bool = False, at: int = NO_CALL, /) -> Any:
        """What to call instead of a function: its reporting version, or what calls and judges it."""
        if type(function) is BuiltinFunctionType and function in LOOKS_AT_FRAME:
            return frame_builtins.seen_by(function)
        if self.hearing.left_out.takes(function):
            return functools.partial(self.hearing.leave_out, function)
        self.calling = self.sites[at]
        followed = self.hearing.following.follow(self, function)
        if followed is not None:
            return followed
        if isinstance(function, type):
            return functools.partial(self.hearing.make, function) if is_users_class(function) else function
        return functools.partial(self.hearing.call, self, self.sites[at], function)

    def operate(self, at: int, /, *operands: Any) -> Any:
        return self.hearing.call(self, self.sites[at], operator_of(self.sites[at]), *operands)

    # what is bound is of no interest, but for how often

    def bind(self, at: int, value: Any, /) -> Any:
        local = self.sites[at].local
        self.counts[local] = self.counts.get(local, 0) + 1
        return value

    name = wrote = bind


class Hearing:
    """One run of a program whose calls are judged: what ``Trace`` is where values are recorded."""

    operations = False
    in_function = True

    def __init__(
        self, tape: Calls, judge: Judge, home: str | None, paths: Mapping[int, str], left_out: LeftOut
    ) -> None:  # fmt: skip
        self.tape, self.judge, self.home, self.paths, self.left_out = tape, judge, home, paths, left_out
        self.selection = self  # of which what follows asks no more than in_function
        self.values: list[Any] = []
        self.notes: dict[Note, None] = {}
        self.entered: dict[str, int] = {}
        self.following = HearingFollowing(self)
        self.last: tuple[HearingScope, Site] | None = None

    def opener(self, parent: HearingScope | None, label: str) -> Callable[..., Callable[[], HearingScope]]:
        """What a function called from ``parent`` reports to, whenever it is entered; at the root it has no name."""

        def open_with(name: str, file: str, sites: tuple[Site, ...]) -> Callable[[], HearingScope]:
            path = "" if parent is None else f"/{quote(label or name)}"
            return lambda: HearingScope(self, parent, path, file, sites)

        return open_with

    def module_opener(self, path: str) -> Callable[..., Callable[[], HearingScope]]:
        """What the forward of a module of the model reports to."""
        return lambda name, file, sites: lambda: HearingScope(self, None, path, file, sites)

    def make(self, kind: type, /, *args: Any, **kwargs: Any) -> Any:
        """Make an object of a class of the user's, which may compute."""
        if self.tape.hear(_given, args, kwargs) not in (None, HOLDS):
            self.notes[Note("class_not_followed", {"name": kind.__qualname__})] = None
        return kind(*args, **kwargs)

    def call(self, scope: HearingScope, site: CallSite, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Make a call of the program's, and judge it."""
        self.last = scope, site
        since = self.tape.now()
        heard = self.tape.hear(function, args, kwargs)
        result = function(*args, **kwargs)
        if isinstance(heard, str):
            made: Operation | str | None = heard if self.tape.now() > since else None
        else:
            made = None if heard is None else heard.made(result)
        if made is not None:
            self.tape.tell(since)
            self.judge(scope, site, made)
        return result

    def leave_out(self, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Make a call that is not judged, as asked."""
        since = self.tape.now()
        result = function(*args, **kwargs)
        self.tape.tell(since)
        return result


def is_users_class(kind: type) -> bool:
    """Has it code of the user's that runs when an object of it is made?"""
    for name in ("__init__", "__post_init__", "__new__"):
        inner = innermost(getattr(kind, name, None))
        file = inner.__code__.co_filename if inner is not None else "<"
        if not file.startswith("<") and package(file) is None:
            return True
    return False


def _given(*args: Any, **kwargs: Any) -> None:
    """Stands for a call with these arguments, to ask whether any of them is differentiated."""


class HearingFollowing(Following):
    """Functions are followed as when they are recorded, but for those whose derivative is their own."""

    def __init__(self, hearing: Hearing) -> None:
        self.trace: Any = hearing

    def follow(self, scope: Any, function: Any) -> Any:
        tape: Calls = self.trace.tape
        if tape.is_whole(function):
            return None
        path = self.trace.paths.get(id(function))
        if tape.opens(function):
            return self._opened(scope, function, path)
        return super().follow(scope, function)

    def _opened(self, scope: Any, module: Any, path: str | None) -> Any:
        """A module whose forward is followed, under its path where it is one of the model's."""
        if self.note_compiled(module):
            return None
        called = self.trace.tape.called(module, True)
        assert called is not None
        forward, call = called
        opener = self.trace.opener(scope, type(module).__name__) if path is None else self.trace.module_opener(path)
        try:
            followed = reporting(forward, opener, calls=True)
        except NoSource as error:
            name = path or type(module).__name__
            self.trace.notes[Note("not_followed", {"name": name, "why": error.headline})] = None
            return None
        return functools.partial(self.call_settled, call, followed)

    def _followed(self, scope: Any, argument: Any) -> Any:
        """A function that is given to another: one that is not followed is judged whenever that calls it."""
        given = super()._followed(scope, argument)
        is_heard = given is argument and callable(argument) and not isinstance(argument, type)
        if not is_heard:
            return given
        site = dataclasses.replace(scope.calling, arguments=())  # those are what the other function is given
        return functools.partial(self.trace.call, scope, site, argument)

    def reporting(self, function: Any, scope: Any, label: str) -> Any:
        return reporting(function, self.trace.opener(scope, label), calls=True)
