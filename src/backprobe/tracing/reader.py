"""Reads a log: finds which scopes ran, and which values their statements have bound."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from backprobe.backends import capabilities
from backprobe.backends.facts import Around
from backprobe.backends.protocol import Tape
from backprobe.record.patterns import Selection
from backprobe.source.sites import Site
from backprobe.tracing import log
from backprobe.tracing.log import DONE, NAMED, NO_SITE_AT, Code, Log, ScopeKind
from backprobe.tracing.naming import Leaves, Naming
from backprobe.tracing.provenance import explain, hand_over, mentions
from backprobe.tracing.replacing import Marks
from backprobe.tracing.values import NO_SITE, OF_FORWARD, RETURNED, ScopeId, ScopeNames, Value
from backprobe.tracing.versions import By, Versions


class Reader:
    """Reads one log. Each call of ``read`` continues where the last one stopped, so a log can be read while it
    grows.
    """

    def __init__(self, tape: Tape, selection: Selection, log: Log, versions: Versions) -> None:
        self.log, self.versions = log, versions
        self.writes = tape if isinstance(tape, capabilities.Writes) else None
        self.naming = Naming(versions.previous, self._decide, operations=selection.asks_operations)
        root = ScopeId(None, "", 0)
        self.root = ScopeNames(root)
        self.scopes = [self.root]  # the index is the number of the scope
        self.sites: list[Sequence[Site]] = [()]  # the sites of each scope, by its number
        self.live: dict[ScopeNames, None] = {}
        self.entered: dict[str, int] = {}  # how often each module was entered, by path
        # how often each function was entered; the outermost is not counted
        self.runs: defaultdict[tuple[str, str, range], int] = defaultdict(int)
        self.finished: dict[str, list[ScopeNames]] = {}  # forwards that have ended before their modules have
        # By number of a capture: the statement that wrote to the captured tensor without being observed.
        self.writers: dict[int, tuple[ScopeId, Site]] = {}
        self.last: tuple[ScopeId, Site] | None = None
        self.returned = 0  # how often the model itself has returned
        self.return_site = NO_SITE
        self.at_return = ScopeNames(root)
        self.at = 0

    def read(self) -> None:
        """Read the events that were logged since the last call."""
        events = self.log.events
        while self.at < len(events):
            scope, word, said = events[self.at : self.at + 3]
            self.at += 3
            if word >= 0:
                self._statement(scope, word, said)
            else:
                WORDS[word](self, scope, said)

    def _decide(self, value: Value) -> None:
        # If a new value has no history, find out why. This is only possible now, because it was unknown from which
        # values it was computed.
        assert value.number is not None
        assert value.around is not None
        value.capture = self.versions.captures[value.number]
        if self.writes is not None:
            self.versions.decide(self.writes, value.number, value.around)

    def around(self, by: By, at: int | Site) -> Around:
        """Return the captures that a statement mentions. The second result: does it mention a differentiated value that
        was not selected?

        The log must have been read up to this statement.
        """
        if isinstance(by, ScopeKind):
            numbers, unrecorded = self.naming.parameters.inside(by.stripped), False
        else:
            names, site = self.scopes[by.number], self._site(by.number, at)
            numbers, unrecorded = mentions(self.naming.parameters, names, site)
        return [self.versions.captures[number] for number in numbers], unrecorded

    def _site(self, scope: int, at: int | Site) -> Site:
        if isinstance(at, Site):
            return at
        return NO_SITE if at == NO_SITE_AT else self.sites[scope][at]

    # Methods that read reports about statements.

    def _statement(self, scope: int, word: int, said: Any) -> None:
        names = self.scopes[scope]
        site = self.sites[scope][word & (NAMED - 1)]
        if names.filled:
            self.naming.filled(names, site)
        if word >= DONE:
            self.naming.done(names, site)
            return
        self._bind(names, site.local, said, site)
        if word < NAMED:
            names.returned.clear()
            names.calls.clear()

    def _bind(self, names: ScopeNames, local: str, code: Code, site: Site, own: str = "") -> None:
        if self.naming.operations or not local.endswith("()"):
            self.last = (names.id, site)
        if local == "return" and names is self.root and site.line:
            self.return_site, self.at_return = site, names.snapshot()
        self.naming.bind(names, local, code, site, own)

    def _each(self, scope: int, said: tuple[int, str, Code]) -> None:
        at, own, code = said
        site = self.sites[scope][at]
        self._bind(self.scopes[scope], site.local, code, site, own)

    def _read(self, scope: int, said: tuple[str, Code]) -> None:
        local, code = said
        self._bind(self.scopes[scope], local, code, NO_SITE)

    def _replaced(self, scope: int, said: Marks) -> None:
        self.naming.replaced(said)

    def _forget(self, scope: int, said: tuple[str, ...]) -> None:
        self.scopes[scope].forget(*said)

    def _changed(self, scope: int, said: tuple[str, int, int, Leaves]) -> None:
        key, by, at, found = said
        self.naming.changed(self.scopes[scope], key, found, self.scopes[by], self._site(by, at))

    def _over(self, scope: int, own: str) -> None:
        names = self.scopes[scope]
        names.forget(*[key for key in names.slots if key.endswith(own)])

    def _called(self, scope: int, origin: str) -> None:
        self.scopes[scope].calls.append(origin)

    def _by_itself(self, scope: int, said: None) -> None:
        calls = self.scopes[scope].calls
        if calls:
            calls[-1] = ""

    def _mentioned(self, scope: int, said: Any) -> None:
        self.naming.mentioned(self.scopes[scope], said)

    # Methods that read reports about scopes.

    def _enter(self, scope: int, kind: ScopeKind) -> None:
        if not kind.path:
            names, names.id.file, self.sites[0] = self.root, kind.file, kind.sites
        elif kind.path.startswith("/"):
            caller = self.scopes[scope]
            names = self._names(caller, kind.path, caller.id.entered, kind.file)
            names.enclosing = self._enclosing(caller, kind)
        else:
            names = self._names(None, kind.path, self.entered, kind.file)
        names.lines, names.own = kind.lines, kind.own
        if kind.path:
            self.runs[_function(names)] += 1
            self._add(names, kind.sites)
        self.live[names] = None

    def _enclosing(self, caller: ScopeNames, kind: ScopeKind) -> ScopeNames | None:
        # Return the running function in which another function is defined, if there is one. If it was entered more than
        # once, return None, because the closure may come from an earlier run.
        running: ScopeNames | None = caller
        while running is not None:
            if running.id.file == kind.file and _holds(running.lines, kind.lines):
                return running if self.runs[_function(running)] <= 1 else None
            running = running.parent
        return None

    def _add(self, names: ScopeNames, sites: Sequence[Site]) -> None:
        self.scopes.append(names)
        self.sites.append(sites)

    def _names(self, caller: ScopeNames | None, path: str, entered: dict[str, int], file: str = "") -> ScopeNames:
        count = entered.get(path, 0)
        entered[path] = count + 1
        scope = ScopeId(None if caller is None else caller.id, path, count, file)
        return ScopeNames(scope, caller, self.log.transcripts.get(self.at - 3, ()))

    def _again(self, scope: int, names: ScopeNames) -> None:
        # Add the scope that called the recomputed part, in the log of a recomputation.
        own = ScopeId(names.id.parent, names.id.path, names.id.count, names.id.file)
        self._add(ScopeNames(own, names.parent), ())

    def _leave(self, scope: int, said: None) -> None:
        names = self.scopes[scope]
        self.live.pop(names, None)
        names.returned.clear()
        hand_over(names)
        names.slots = {local: slot for local, slot in names.slots.items() if local == "return"}
        names.items.clear()
        if names.id.path and names.parent is None:
            self.finished.setdefault(names.id.path, []).append(names)

    # Methods that read reports about modules.

    def _module(self, scope: int, said: tuple[ScopeKind, Code]) -> None:
        kind, code = said
        finished = self.finished.get(kind.path)
        names = finished.pop() if finished else self._names(None, kind.path, self.entered)
        self.naming.returns(names, code, kind.wanted[OF_FORWARD])
        self._bind(names, "return", code, NO_SITE)

    def _parameter(self, scope: int, said: tuple[str, int]) -> None:
        self.naming.parameter(*said, self.root)

    def _absent(self, scope: int, said: Any) -> None:
        if said[-1] != "return" or not self.finished.get(said[0]):  # otherwise the program called its forward directly
            self.naming.absent(*said)

    # Methods that read reports about outputs.

    def _result(self, scope: int, said: tuple[bool, Code, bool]) -> None:
        of_module, code, keeps = said
        if of_module:
            self.naming.returns(self.root, code, keeps, self.returned)
        self._bind(self.root, "return", code, RETURNED if of_module else NO_SITE)
        self.returned = self.root.id.counts.get("return", 0)

    def _held(self, scope: int, said: tuple[str, str, int, bool]) -> None:
        local, leaf, number, is_known = said
        self.naming.output(self.root.id, local, leaf, number, is_known, NO_SITE, self.root)

    def _output(self, scope: int, said: tuple[str | None, str, Site | None, int, bool]) -> None:
        path, name, given, number, is_known = said
        site = self.return_site if given is None else given
        if path is None and name != "return":
            self.naming.output(None, name, "", number, is_known, NO_SITE, self.root)
            return
        local, leaf = ("of()", "") if path is None else (name, path)
        value = self.naming.output(self.root.id, local, leaf, number, is_known, site, self.root)
        if local != "of()" and path is not None and value.site is site and not value.expression:
            explain(value, site.origin.at(path), self.at_return, self.naming.parameters, self.naming.renewed)

    def held_at(self, number: int, site: Site, file: str) -> None:
        """Name a tensor that is used without a name in a line of a file, and store the values that the line
        mentions.
        """
        running = (names for names in reversed(list(self.live)) if names.id.file == file)
        names = next(running, None) or ScopeNames(ScopeId(None, "", 0, file))  # a block around a model has no scope
        is_known = number in self.naming.by_number
        value = self.naming.output(self.root.id, site.local, "", number, is_known, site, names)
        explain(value, site.origin, names, self.naming.parameters, self.naming.renewed)

    def hold_unnamed(self, unnamed: Callable[[Sequence[Any]], Sequence[tuple[str, Any, int]]]) -> None:
        """Give names to differentiated values that the program read without a name. The names are the
        framework's own.
        """
        numbers = [value.number for value in self.naming.made if value.number is not None]
        found = unnamed([self.versions.captures[number] for number in numbers])
        self.naming.unnamed(
            self.root.id,
            [(name, self.versions.add(capture, capture.source), before) for name, capture, before in found],
        )

    # Methods that read reports about writes.

    def _swept(self, scope: int, said: tuple[int | Site, tuple[tuple[int, int], ...]]) -> None:
        at, found = said
        pairs = dict(found)
        names, site = self.scopes[scope], self._site(scope, at)
        written = [
            (live, key)
            for live in self.live
            for key, slot in live.slots.items()
            if any(value.number in pairs for _, value in slot)
        ]
        for live, key in written:
            items = live.items.get(key)
            self.naming.renew(live, key, pairs, names, site)
            if items is not None:
                live.items[key] = tuple((leaf, self.naming.latest_of(value, pairs)) for leaf, value in items)

    def _overwritten(self, scope: int, said: tuple[int | Site, tuple[int, ...]]) -> None:
        at, numbers = said
        self.writers.update(dict.fromkeys(numbers, (self.scopes[scope].id, self._site(scope, at))))

    def _stored(self, scope: int, said: None) -> None:
        self.naming.renewed.clear()

    def release(self) -> None:
        """Release all values, and break cycles that would keep them until the next garbage collection."""
        for names in self.scopes:
            names.release()
        for value in self.naming.made:
            value.names.clear()
            value.passages = ()
        for held in (self.scopes, self.live, self.finished, self.naming.made, self.naming.by_number):
            held.clear()
        self.last, self.at_return = None, ScopeNames(self.root.id)
        self.naming.latest = ()
        del self.naming.decide


def _function(names: ScopeNames) -> tuple[str, str, range]:
    # Return a key for the function of a scope. Forwards of two modules have different keys, because they do not share
    # closures.
    return "" if names.parent is not None else names.id.path, names.id.file, names.lines


def _holds(lines: range, inner: range) -> bool:
    return bool(inner) and lines.start <= inner.start and inner.stop <= lines.stop and lines != inner


WORDS: dict[int, Callable[[Reader, int, Any], None]] = {
    log.EACH: Reader._each,
    log.FORGET: Reader._forget,
    log.OVER: Reader._over,
    log.CALLED: Reader._called,
    log.BY_ITSELF: Reader._by_itself,
    log.ENTER: Reader._enter,
    log.AGAIN: Reader._again,
    log.LEAVE: Reader._leave,
    log.MODULE: Reader._module,
    log.RESULT: Reader._result,
    log.MENTIONED: Reader._mentioned,
    log.PARAMETER: Reader._parameter,
    log.ABSENT: Reader._absent,
    log.HELD: Reader._held,
    log.OUTPUT: Reader._output,
    log.SWEPT: Reader._swept,
    log.OVERWRITTEN: Reader._overwritten,
    log.STORED: Reader._stored,
    log.READ: Reader._read,
    log.REPLACED: Reader._replaced,
    log.CHANGED: Reader._changed,
}
