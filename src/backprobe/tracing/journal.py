"""A journal: what one call of a model reports, in one list that is read when the call is over.

While a journal is kept, nothing is decided: journalling code (``source/journalling``) puts sites and what was bound
into the list, and entries, exits and calls are words in it. When the call is over the list is compared with what such
a call was before (``Course``). Where it is the same, its captures are taken all at once and its events are known.
Otherwise it is *read*: event by event it goes the way that every reporting function takes, through its ``Scope``.

What cannot wait ends the journal: a write into a tensor, a call of which nothing is known, gradients switched off, a
transform of functions, an error. It is read up to there, and from then on everything is heard at once (``Live``).
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from itertools import compress
from threading import get_ident
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any, NamedTuple

from backprobe.backends.capabilities import Journals
from backprobe.backends.facts import Effect
from backprobe.source import frame_builtins
from backprobe.source.copies import Copy
from backprobe.source.followed_calls import plain_function
from backprobe.source.listener import NO_CALL
from backprobe.source.sites import Site
from backprobe.tracing.course import Course, courses_of
from backprobe.tracing.log import CALLED, DONE, ENTER, LEAVE, MENTIONED, ScopeKind
from backprobe.tracing.scope import HOMES, PLAIN_TYPES, Scope

FAILED, OF_MODULE = -101, -102
"""Words beside those of the log: a scope is left by an error, and the module that is called is said with it."""


class Base(NamedTuple):
    """What a trace had of each before a call."""

    captures: int
    events: int
    plain: int
    scopes: int


class Frame:
    """A scope that was entered, as far as the journal was read."""

    __slots__ = ("called", "module", "returned", "returned_at", "scope")

    def __init__(self, scope: Scope, module: Any) -> None:
        self.scope, self.module = scope, module
        self.returned: Any = None
        self.returned_at: int | None = None
        self.called: list[Any] = []  # the modules that its code has called, which have not returned


class Journal(list[Any]):
    """What journalling code reports to, in the place of a ``Scope``."""

    def __init__(self, trace: Any, tape: Journals) -> None:
        super().__init__()
        self.trace, self.tape = trace, tape
        self.thread = get_ident()
        self.kinds: list[ScopeKind] = []  # of the scopes that run, as they were entered
        self.frames: list[Frame] = []  # the same, as far as the journal was read
        self.at = 0  # how far that is
        self.stamped = 0  # how far versions were noted
        self.early: list[Any] = []  # the tensors before that place, and the versions that they had
        self.versions: list[int] = []
        self.is_live = self.is_read = self.is_over = False
        self.copies: dict[tuple[FunctionType, bool], Copy] = {}
        self.codes: list[tuple[int | None, Any]] = []  # what was read: places of what was bound or returned, and codes
        self.paths: dict[Any, str] = {}  # of the model's modules
        self.modules: Sequence[Any] = ()
        self.executed: set[str] = set()
        self.called_from: list[Any] | None = None
        self.listen: Callable[[], object] = tuple
        self.why = ""

    def begin(
        self,
        paths: dict[Any, str],
        modules: Sequence[Any],
        executed: set[str],
        called_from: list[Any] | None,
        listen: Callable[[], object],
    ) -> None:
        """Hear the modules of a model: their paths, the set of those that have returned, and what called them.

        ``listen`` is called when the journal hears them no longer.
        """
        self.paths, self.modules, self.executed, self.called_from = paths, modules, executed, called_from
        self.listen, self.is_begun = listen, True

    is_begun = False

    @functools.cached_property
    def base(self) -> Base:
        """How far the trace was when the model was called."""
        trace = self.trace
        return Base(len(trace.versions.captures), len(trace.events), len(trace.plain), trace.scopes)

    # what opens it

    def forward(self, path: str, forward: Any) -> Any:
        """The journalling version of a module's forward; None where there is none."""
        if not self.is_begun:
            return None
        function = forward.__func__ if type(forward) is MethodType else None
        copy = None if type(function) is not FunctionType else self._copy(function, True)
        if copy is None:
            return None
        if path not in copy.kinds:
            copy.kinds[path] = self.trace.plan.kind(path, "", copy.file, copy.sites)
        counted = self.trace.versions.counted
        if counted is not None and copy.function is copy.inner:
            counted.reports(forward.__self__)
        return MethodType(copy.function, forward.__self__)

    def follow_once(self, function: Any) -> Any:
        """The journalling version of a function that is called now; None where it is not followed."""
        plain = function.__func__ if type(function) is MethodType else function
        if type(plain) is FunctionType and not plain.__dict__ and id(plain.__code__) in self.trace.own:
            copy = self._copy(plain, False)
            if copy is not None:
                return copy.function if plain is function else MethodType(copy.function, function.__self__)
        return self.trace.following.follow(self, function)

    def _copy(self, function: FunctionType, is_forward: bool) -> Copy | None:
        copy = self.copies.get((function, is_forward))
        if copy is None:
            copy = self.trace.plan.copies.lend(function, self.trace.operations, True)
            if copy is not None:
                self.copies[function, is_forward] = copy
                copy.cell.cell_contents = functools.partial(self._open_forward if is_forward else self._open, copy)
        return copy

    def _open_forward(self, copy: Copy, module: Any) -> Any:
        path = self.paths.get(module)
        if path is None:
            return Live(self.trace.enter_module("", copy.file, copy.sites))
        kind = copy.kinds[path]
        if self.called_from is not None:
            self._note_caller(path)
        return self._entered(kind, module)

    def _open(self, copy: Copy, _: Any) -> Any:
        caller = self.kinds[-1]
        kind = copy.kinds.get(caller)
        if kind is None:
            kind = copy.kinds[caller] = self.trace.plan.kind(
                f"/{copy.name}", caller.stripped, copy.file, copy.sites
            )
        return self._entered(kind, None)

    def opener(self, label: str) -> Any:
        """For a function that is followed by a copy of its own."""

        def open_with(name: str, file: str, sites: tuple[Site, ...]) -> Callable[[Any], Any]:
            def opened(_: Any) -> Any:
                return self._entered(
                    self.trace.plan.kind(f"/{label or name}", self.kinds[-1].stripped, file, sites), None
                )

            return opened

        return open_with

    def _entered(self, kind: ScopeKind, module: Any) -> Any:
        if self.is_live or not self.tape.is_usual() or get_ident() != self.thread:
            return self._enter_live(kind, module)
        if not self.kinds:
            self.base  # noqa: B018
        self.kinds.append(kind)
        self.extend((ENTER, kind, module))
        return self

    def _enter_live(self, kind: ScopeKind, module: Any) -> Any:
        self.go_live("unusual")
        if module is not None:
            return Live(self.trace._enter_forward(kind))
        return Live(self.trace.entered(self.frames[-1].scope.number, kind))

    def _note_caller(self, path: str) -> None:
        frame: Any = sys._getframe(3)
        while frame is not None and frame.f_code.co_filename in self.between:
            frame = frame.f_back
        if frame is not None:
            self.called_from += (path, frame.f_code, frame.f_lasti)

    between: frozenset[str] = frozenset()

    # what journalling code says

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, kind: Any, *_: object) -> None:
        self.append(LEAVE if kind is None else FAILED)
        self.kinds.pop()
        if kind is not None:
            self.go_live("error")
        elif self.is_live:
            self.read()
        if not self.kinds:
            self._end()

    def bind(self, at: int, value: Any) -> Any:
        self.extend((at, value))
        return value

    def done(self, at: int, value: Any) -> Any:
        self.append(at + DONE)
        return value

    def writing(self, value: Any) -> None:
        if type(value) not in PLAIN_TYPES:
            self._scope("writing").writing(value)

    def wrote(self, at: int, value: Any) -> Any:
        if type(value) in PLAIN_TYPES:
            self.extend((at, value))
            return value
        return self._scope("wrote").wrote(at, value)

    def call(self, function: Any, flagged: bool = False, at: int = NO_CALL, /) -> Any:
        """What to call instead of ``function``, as ``Scope.call``."""
        if self.is_live:
            return self._scope("call").call(function, flagged, at)
        trace, kind = self.trace, type(function)
        follows = self.kinds[-1].follows
        if kind is BuiltinFunctionType:
            owner = function.__self__
            home = type(owner)
            key: Any = owner if home in HOMES else home, function.__name__, flagged
        elif (plain := plain_function(function)) is not None:
            code = plain.__code__
            if follows and id(code) in trace.own:
                followed = self.follow_once(function)
                if followed is not None:
                    self.extend((CALLED, ""))
                    return followed
            owner = type(function.__self__) if kind is MethodType else None
            key = id(code), owner, plain.__module__, plain.__name__, flagged, follows
        elif kind is type:
            key = function, flagged
        else:
            return self._call_object(function, flagged, at)
        known = trace.known_calls.get(key)
        if known is None:
            return self._call_unknown(function, flagged, at)
        origin, effect, _ = known
        if effect is not Effect.READS:
            return self._call_writing(function, origin, effect, flagged, at)
        self.extend((CALLED, origin))
        return function

    def _call_object(self, function: Any, flagged: bool, at: int) -> Any:
        trace, kind = self.trace, type(function)
        key = (kind, getattr(kind, "__call__", None))  # noqa: B004  # see ``way_of``
        known = trace.known_calls.get(key)
        if known is None:
            return self._call_unknown(function, flagged, at)
        effect = trace.effect(function, flagged)
        if effect is Effect.READS and function in self.paths:
            self.extend((CALLED, known[0], OF_MODULE, function))
            return function
        watched = self._call_writing(function, known[0], effect, flagged, at)
        if self.is_live:
            return watched
        return functools.partial(self._call_module, watched)

    def _call_module(self, module: Any, /, *args: Any, **kwargs: Any) -> Any:
        result = module(*args, **kwargs)
        if self.is_live:
            self.trace.mentioned(self._scope("returned"), result)
        else:
            self.extend((MENTIONED, result))
        return result

    def _call_writing(self, function: Any, origin: str, effect: Effect, flagged: bool, at: int) -> Any:
        if effect is Effect.WRITES or (effect is Effect.UNKNOWN and self._is_of_tensor(function)):
            return self._scope("call").call(function, flagged, at)
        if effect is Effect.UNKNOWN:
            self._stamp()
        self.extend((CALLED, origin))
        return functools.partial(self._call_as_asked, function) if effect is Effect.AS_ASKED else function

    def _is_of_tensor(self, function: Any) -> bool:
        return type(function) is BuiltinFunctionType and type(function.__self__) in self.trace.ordinary

    def _call_as_asked(self, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        if self.is_live or self.trace.targets(function, args, kwargs):
            return self._scope("write")._call_as_asked(function, *args, **kwargs)
        return function(*args, **kwargs)

    def _call_unknown(self, function: Any, flagged: bool, at: int) -> Any:
        is_builtin = type(function) is BuiltinFunctionType
        if is_builtin and function in frame_builtins.LOOKS_AT_FRAME:
            return frame_builtins.seen_by(function)
        if not is_builtin and self.kinds[-1].follows:
            followed = self.follow_once(function)
            if followed is not None:
                self.extend((CALLED, ""))
                return followed
        return self._scope(f"unknown {function}").call(function, flagged, at)

    def __getattr__(self, word: str) -> Any:
        """All other words end the journal."""
        return getattr(self._scope(word), word)

    def _scope(self, why: str) -> Any:
        # The scope that journalling code runs in, with all that was said before heard.
        self.go_live(why)
        return self.frames[-1].scope

    def _stamp(self) -> None:
        # Something is called that may write: what tensors were bound until now, and at which versions.
        new = self[self.stamped :]
        self.stamped = len(self)
        tensors = [*compress(new, map(self.trace.ordinary.__contains__, map(type, new)))]
        self.early += tensors
        self.versions += self.trace.versions.counted.versions(tensors)

    # reading

    def go_live(self, why: str = "asked") -> None:
        """Read what was said, and hear from now on at once what is."""
        if self.is_over or self.is_read or not (self.kinds or len(self)):
            return
        if not self.is_live:
            self.is_live, self.why = True, why
            self.listen()
        self.read()

    def read(self) -> None:
        """Let the scopes say what was put down since this was read last."""
        if self.is_read or self.at == len(self):
            return
        self.is_read = True
        try:
            with self.tape.as_usual():
                self._read()
        finally:
            self.is_read = False

    def _read(self) -> None:
        at, trace = self.at, self.trace
        while at < len(self):
            word = self[at]
            if word >= DONE:
                self.frames[-1].scope.done(word - DONE, None)
                at += 1
            elif word >= 0:
                self._read_bound(word, at + 1)
                at += 2
            elif word == CALLED:
                scope = self.frames[-1].scope
                trace.say((scope.number, CALLED, self[at + 1]))
                at += 2
            elif word == OF_MODULE:
                self.frames[-1].called.append(self[at + 1])
                at += 2
            elif word == MENTIONED:
                trace.mentioned(self.frames[-1].scope, self[at + 1])
                at += 2
            elif word == ENTER:
                self._read_enter(self[at + 1], self[at + 2])
                at += 3
            else:
                self._read_leave(word)
                at += 1
            self.at = at

    def _read_bound(self, site: int, at: int) -> None:
        frame = self.frames[-1]
        place = len(self.trace.events)
        frame.scope.bind(site, self[at])
        self.codes.append((at, self.trace.events[place + 2]))
        if frame.scope.locals[site] == "return":
            frame.returned, frame.returned_at = self[at], at

    def _read_enter(self, kind: ScopeKind, module: Any) -> None:
        trace = self.trace
        if module is not None:
            scope = trace._enter_forward(kind)
        else:
            scope = trace.entered(self.frames[-1].scope.number, kind)
        self.frames.append(Frame(scope, module))

    def _read_leave(self, word: int) -> None:
        frame = self.frames.pop()
        frame.scope.exit()
        if frame.module is None or word == FAILED or not self.frames:
            self.last = frame
            return
        place = len(self.trace.events)
        self._returned(frame.module, frame.returned)
        self.codes.append((frame.returned_at, self.trace.events[place + 2][1]))
        caller = self.frames[-1]
        if frame.module in caller.called:
            caller.called.remove(frame.module)
            self.trace.mentioned(caller.scope, frame.returned)

    last: Frame | None = None

    def _returned(self, module: Any, output: Any) -> None:
        path = self.paths[module]
        self.executed.add(path)
        self.trace.name_returned(path, output)

    def _end(self) -> None:
        # The outermost scope is left: the model has returned.
        if not self.is_live:
            course = None if self._is_written() else self._course()
            if course is not None:
                output = course.follow(self)
            else:
                self.read()
                output = None if self.last is None else self.last.returned
                if not self._is_written():
                    Course.learn(self)
        else:
            output = None if self.last is None else self.last.returned
        failed = self[-1] == FAILED
        module = self[2]
        if not self.is_live:
            self.listen()
        self.is_live = self.is_over = True
        self.release()
        if not failed and module is not None:
            self._returned(module, output)

    def _course(self) -> Course | None:
        return next((one for one in courses_of(self.trace.plan) if one.fits(self)), None)

    def _is_written(self) -> bool:
        return self.versions != self.trace.versions.counted.versions(self.early)

    def close(self) -> None:
        """Nothing more is kept."""
        for copy in self.copies.values():
            copy.give_back()
        self.copies.clear()
        self.is_begun = False
        self.release()

    def release(self) -> None:
        """Keep nothing any longer."""
        self.is_live = self.is_over = True
        self.clear()
        for held in (self.early, self.versions, self.codes, self.frames, self.kinds):
            held.clear()
        self.at = 0


class Live:
    """A scope that journalling code talks to, when all that it says is heard at once."""

    __slots__ = ("scope",)

    def __init__(self, scope: Scope) -> None:
        self.scope = scope

    def extend(self, said: Any) -> None:
        """What was bound, after its site."""
        turns = iter(said)
        for at, value in zip(turns, turns, strict=True):
            self.scope.bind(at, value)

    def __getattr__(self, word: str) -> Any:
        return getattr(self.scope, word)

    def __enter__(self) -> Live:
        return self

    def __exit__(self, *error: object) -> None:
        self.scope.exit(*error)
