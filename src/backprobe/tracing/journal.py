"""A journal is the list of reports from one call of a model. They are processed as late as possible.

Nothing is decided while reports are collected. Journalling code (``source/journalling``) appends sites and bound values
to the list, and words for calls and for scopes that are entered or left. The journal is settled when the call is over,
or when something cannot wait, such as a write into a tensor. Then the list is compared with earlier lists at this point
(``course``). If it equals one of them, its events are known, and its captures are taken all at once. Otherwise the list
is read (``journal_reading``): each report goes through a ``Scope``, as those of every reporting function do.

A transform of functions, a mode, a checkpoint or an error makes the journal live: from then on every report is
processed at once.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import compress, count
from operator import call
from threading import get_ident
from types import FunctionType, MethodType
from typing import Any

from backprobe.backends.capabilities import Journals
from backprobe.source.reporting import reporting
from backprobe.source.sites import Site
from backprobe.tracing import course
from backprobe.tracing.course import FAILED, Segment
from backprobe.tracing.journal_calls import CHANGEABLE, NOBODY, JournalCalls
from backprobe.tracing.journal_reading import Reading
from backprobe.tracing.lent_copies import Known
from backprobe.tracing.live_scope import Live
from backprobe.tracing.log import CALLED, DONE, ENTER, LEAVE, ScopeKind
from backprobe.tracing.scope import PLAIN_TYPES, Scope


class Journal(JournalCalls):
    """The object to which journalling code reports, in place of a ``Scope``."""

    def __init__(self, trace: Any, tape: Journals, courses: course.Courses) -> None:
        super().__init__()
        self.trace, self.tape, self.courses, self.thread = trace, tape, courses, get_ident()
        self.reading = Reading(trace)
        self.kinds: list[ScopeKind] = []  # of the open scopes
        self.modes: list[tuple[bool, bool]] = []  # for each: was history on when it was entered; was it awaited
        self.awaited: Any = NOBODY  # the reporting function that was called last
        self.reads, self.functions = courses.reads, courses.functions
        self.lent = courses.borrow()
        self.lent.journal = self
        self.known: dict[int, Known] = {**courses.functions, **self.lent.known}
        self.of_modules: dict[int, tuple[Any, ...]] = {}
        # for fast access by journalling code
        self.words: tuple[Any, ...] = (self.extend, self.reads.get, type, courses.readers.get, id)
        self.mode = True  # is history on?
        self.circumstances, self.hooks_of = (get_ident, *tape.circumstances), tape.hooks_of
        self.usual: tuple[Any, ...] = ()  # the circumstances in which histories are on or off, as ``mode`` says
        self.early: list[Any] = []  # tensors that were bound before a call that may write unobserved
        self.versions: list[int] = []  # the versions of these tensors before the call
        self.contents: list[tuple[int, Any]] = []  # places of containers, with copies from before the call
        self.stamped = 0  # ``early``, ``versions`` and ``contents`` cover the journal up to this place
        self.previous: Segment | None = None  # the last settled segment
        self.settled = 0  # the number of events when the journal was last settled
        self.is_begun = self.is_live = self.is_over = self.is_settling = self.is_lost = self.is_closed = False
        self.called_from: list[Any] | None = None
        self.between: frozenset[str] = frozenset()
        self.listen: Callable[[], object] = tuple

    def begin(
        self,
        paths: dict[Any, str],
        executed: set[str],
        called_from: tuple[list[Any] | None, frozenset[str]],
        listen: Callable[[], object],
    ) -> None:
        """Begin with the modules of a model: ``paths`` are their paths, and ``executed`` collects those that returned.

        ``called_from`` is a list that collects the callers of modules, and the files to skip between a module and its
        caller. ``listen`` is called when the journal no longer handles the modules.
        """
        self.reading.paths, self.reading.executed, self.listen = paths, executed, listen
        self.called_from, self.between = called_from
        self.is_begun = True
        self.settled = len(self.trace.events)

    def refuse(self) -> None:
        """This call cannot have a journal."""
        self.courses.missed += 1
        self.close()

    @functools.cached_property
    def by_path(self) -> dict[str, Any]:
        """The modules by path."""
        return {path: module for module, path in self.reading.paths.items()}

    # Methods that open scopes.

    def knows(self, asked: Mapping[Any, str]) -> bool:
        """Are the forwards of these modules those of the last call?"""
        return self.lent.knows(asked)

    def forwards(self, asked: Mapping[Any, str]) -> list[Any] | None:
        """The journalling forwards of modules, without the modules; None if the last call had other modules."""
        known = self.lent.forwards
        if known is None or not self.lent.knows(asked):
            return None
        plain = [*compress(asked, known.are_plain)]
        self.trace.versions.counted.report(plain)
        said = [*map(self.courses.of_modules.get, map(self.reading.paths.__getitem__, plain))]
        self.of_modules.update([(id(module), items) for module, items in zip(plain, said, strict=True) if items])
        return known.instead

    def know_forwards(self, asked: Mapping[Any, str]) -> None:
        """Remember the forwards of these modules for the next call."""
        self.lent.know_forwards(asked)

    def forward(self, path: str, forward: Any) -> Any:
        """The journalling version of a module's forward; None if there is no journal. Raises NoSource."""
        if not self.is_begun or type(forward) is not MethodType:
            return None
        function = forward.__func__
        copy = self.lent.copy(function, True) if type(function) is FunctionType else None
        if copy is None:
            return reporting(forward, self._forward_opener(path), operations=self.trace.operations, journals=True)
        if path not in copy.kinds:
            copy.kinds[path] = self.trace.plan.kind(path, "", copy.file, copy.sites)
        counted = self.trace.versions.counted
        if counted is not None and copy.function is copy.inner:  # a decorator may write unobserved
            counted.report([forward.__self__])
        return MethodType(copy.function, forward.__self__)

    def _follow(self, function: Any) -> Any:
        # The journalling version of a function that is about to be called; None if the function is not followed.
        plain = function.__func__ if type(function) is MethodType else function
        if type(plain) is FunctionType and not plain.__dict__ and id(plain.__code__) in self.trace.own:
            copy = self.lent.copy(plain, False)
            if copy is not None:
                self.awaited = copy
                if plain is not function:  # a bound method is a new object each time
                    return MethodType(copy.function, function.__self__)
                self.lent.known[id(function)] = self.known[id(function)] = function, (CALLED, ""), copy
                return copy.function
        return self.trace.following.follow(self, function)

    def _forward_opener(self, path: str) -> Any:
        def open_with(name: str, file: str, sites: tuple[Site, ...]) -> Callable[[Any], Any]:
            return functools.partial(self.entered, self.trace.plan.kind(path, "", file, sites))

        return open_with

    def opener(self, label: str) -> Any:
        """The opener for a followed function that gets a copy of its own."""

        def open_with(name: str, file: str, sites: tuple[Site, ...]) -> Callable[[Any], Any]:
            return lambda _: self.entered(self.kind(self.caller(), label or name, file, sites), None)

        return open_with

    def caller(self) -> ScopeKind:
        return self.kinds[-1] if self.kinds else self.trace.root.kind

    def kind(self, caller: ScopeKind, name: str, file: str, sites: Sequence[Site]) -> ScopeKind:
        kind: ScopeKind = self.trace.kind_of_function(caller, name, file, sites)
        return kind

    def entered(self, kind: ScopeKind, module: Any, who: Any = None) -> Any:
        """A journalling function begins to run, for a module or as the called function ``who``. Returns its scope."""
        mode = self.mode
        if tuple(map(call, self.circumstances)) != self.usual and not self._adapt():
            return self._enter_live(kind, module)
        if module is not None and self.called_from is not None:
            self._note_caller(kind.path)
        self.modes.append((mode, who is self.awaited))
        self.awaited = NOBODY
        self.kinds.append(kind)
        self.extend((ENTER, kind, module))
        return self

    def _adapt(self) -> bool:
        # Can the journal go on in these circumstances?
        now, mode = tuple(map(call, self.circumstances)), self.tape.gives_history(self.mode)
        if self.is_live or mode is None or get_ident() != self.thread:
            return False
        if mode is not self.mode:
            self._change(mode)
        self.usual = now
        return True

    def _enter_live(self, kind: ScopeKind, module: Any) -> Live:
        was_live = self.is_live
        self.go_live()
        if not kind.path.startswith("/"):
            # Otherwise the module's return value would not be reported.
            was_called_before = self.is_live and not was_live
            return Live(self.trace.enter_kind(kind), self.reading if was_called_before else None, module)
        frames = self.reading.frames
        return Live(self.trace.entered(frames[-1].scope.number if frames else 0, kind))

    def _note_caller(self, path: str) -> None:
        frame: Any = sys._getframe(3)
        while frame is not None and frame.f_code.co_filename in self.between:
            frame = frame.f_back
        if frame is not None and self.called_from is not None:
            self.called_from += (path, frame.f_code, frame.f_lasti)

    # Methods that journalling code calls to report.

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, kind: Any, *_: object) -> None:
        self.append(LEAVE if kind is None else FAILED)
        self.kinds.pop()
        mode, was_awaited = self.modes.pop()
        self.awaited = NOBODY
        if kind is not None:
            self.go_live()
        elif self.is_live:
            self._read()
        elif mode is not self.mode:
            self._change(mode)
        elif not was_awaited:
            self._stamp()  # the caller may be code that is not followed
        if not self.kinds:
            self._end(kind is not None)

    def within(self) -> None:
        """A statement that may switch gradient recording off or on begins or ends."""
        if not self.is_live and tuple(map(call, self.circumstances)) != self.usual and not self._adapt():
            self.go_live()

    def bind(self, at: int, value: Any) -> Any:
        self.extend((at, value))
        return value

    def done(self, at: int, value: Any) -> Any:
        self.append(at + DONE)
        self.within()
        frames = self.reading.frames
        if frames and frames[-1].scope.held:
            self.settle()
        return value

    def writing(self, value: Any) -> None:
        if type(value) not in PLAIN_TYPES:
            self._scope().writing(value)

    def wrote(self, at: int, value: Any) -> Any:
        return self.bind(at, value) if type(value) in PLAIN_TYPES else self._scope().wrote(at, value)

    def each(self, template: Any, values: Any) -> Iterator[Any]:
        return self._scope().each(template, self._settled(values))

    def _settled(self, values: Any) -> Iterator[Any]:
        # Yield the values. All earlier reports are processed before each value, and at the end.
        for value in values:
            self.settle()
            yield value
        self.settle()

    def __getattr__(self, word: str) -> Any:
        """Return the scope's method for any other report, which is processed immediately. The method looks up the scope
        only when it is called, after its arguments have been evaluated. So reports made by the arguments are processed
        first.
        """
        if word.startswith("__"):
            raise AttributeError(word)
        return functools.partial(self._hear, word)

    def _hear(self, word: str, /, *said: Any) -> Any:
        return getattr(self._scope(), word)(*said)

    def scope(self) -> Scope:
        """The scope of the running code. From now on, reports are processed at once."""
        self.go_live()
        scope: Scope = self.reading.frames[-1].scope
        return scope

    def _scope(self) -> Scope:
        # The scope of the running code, after all earlier reports were processed.
        self.settle()
        return self.reading.frames[-1].scope

    def _stamp(self) -> None:
        # Code runs now that may write unobserved. Note the tensors bound so far with their versions, and the contents
        # of containers.
        if self and self.reading.frames and self.reading.frames[-1].scope.dirty:
            self.reading.sweep_first(self)  # writes by the statement before must not be taken for later ones
        start, new = self.stamped, self[self.stamped :]
        self.stamped = len(self)
        if WORDS.issuperset(map(type, new)):
            return
        kinds = [*map(type, new)]
        if not CHANGEABLE.isdisjoint(kinds):
            places = compress(count(start), map(CHANGEABLE.__contains__, kinds))
            self.contents += [(at, self[at].copy()) for at in places]
        tensors = [*compress(new, map(self.trace.ordinary.__contains__, kinds))]
        self.early += tensors
        self.versions += self.trace.versions.counted.versions(tensors)

    def _change(self, mode: bool) -> None:
        self.settle()
        self.mode, self.usual = mode, ()

    # Methods that process reports.

    def settle(self) -> None:
        """Process the collected reports: follow a known segment, or read them."""
        if self.is_settling or not self:
            return
        if self.is_live:
            self._read()
            return
        self.is_settling = True
        try:
            with self.tape.giving_history(self.mode):
                self._settle()
        finally:
            self.is_settling = False
        self.settled = len(self.trace.events)
        self._forget()

    def _settle(self) -> None:
        self.reading.sweep_first(self)
        written, changed = self._written(), self._changed()
        state, courses = course.before(self), self.courses
        courses.has_unseen_writes |= bool(written or changed)
        known = None if written or self.is_lost else courses.find(self, state)
        if known is not None and course.compare is None:
            self.previous, items = known
            self.previous.follow(self, items)
            return
        has_written = bool(written) or not course.is_unwritten(self.trace.versions)
        self.reading.read(self, has_written)
        self.reading.hide(written)
        made = None if has_written or self.is_lost else Segment.of(self, state)
        if known is not None and course.compare is not None:
            course.compare(known[0], made)
            made = known[0]
        elif made is not None:
            made = courses.keep(self, made)
        self.previous, self.is_lost = made, made is None

    def _written(self) -> list[Any]:
        # The tensors that have been written to, unobserved, since they were bound.
        now = self.trace.versions.counted.versions(self.early)
        return [] if now == self.versions else [*compress(self.early, map(int.__ne__, now, self.versions))]

    def _changed(self) -> bool:
        # Has a container changed? Then the journal gets the old contents: later contents were not bound by this report.
        changed = [(at, held) for at, held in self.contents if _items(self[at]) != _items(held)]
        for at, held in changed:
            self[at] = held
        return bool(changed)

    def go_live(self) -> None:
        """Process the collected reports, and from now on each further report at once."""
        if self.is_over or self.is_settling or not self.is_begun:
            return
        self.settle()
        if not self.is_live and self.kinds:
            self.is_live, self.usual = True, ()
            self.listen()

    def _read(self) -> None:
        if self.is_settling:
            return
        self.is_settling = True
        try:
            self.reading.read(self)
        finally:
            self.is_settling = False
        self._forget()

    def _forget(self) -> None:
        for held in (self, self.early, self.versions, self.contents):
            held.clear()
        self.stamped = 0

    def _end(self, has_failed: bool) -> None:
        # The outermost scope was left: the model has returned.
        self.settle()
        if not self.is_live:
            self.listen()
        self.is_live, self.is_over, self.usual = True, True, ()
        frame, self.reading.last = self.reading.last, None
        if frame is not None and frame.module is not None and not has_failed:
            self.reading.name_returned(frame.module, frame.returned)

    def close(self) -> None:
        """Stop, and release everything."""
        if not self.is_closed:
            self.is_closed = True
            self.courses.take_back(self.lent)
        self._forget()
        self.reading.release()
        self.known.clear()
        self.of_modules.clear()
        self.kinds.clear()
        self.is_live, self.is_over, self.usual = True, True, ()
        self.is_begun, self.previous, self.listen, self.words = False, None, tuple, ()
        vars(self).pop("by_path", None)


WORDS = frozenset({int, str, ScopeKind})


def _items(container: Any) -> list[int]:
    # The identities of a container's keys and values.
    return [*map(id, container), *(map(id, container.values()) if isinstance(container, dict) else ())]
