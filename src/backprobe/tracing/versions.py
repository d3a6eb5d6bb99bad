"""Versions of values: each in-place write makes new ones, also of the other live names on that memory."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Iterable
from typing import Any

from backprobe.backends import capabilities
from backprobe.backends.protocol import Tape
from backprobe.source.sites import Site
from backprobe.tracing.provenance import Parameters, explain_written, mentions
from backprobe.tracing.values import OWN, ScopeId, ScopeNames, Value, Values

DETACHED = -1  # no version of any tensor: what has this name is another one, though nobody has written to it


class Versions:
    """Which value each tensor is now: the one that was captured at the version that it has."""

    def __init__(
        self, tape: Tape, values: Values, live: Iterable[ScopeNames], parameters: Parameters, *, by_line: bool
    ) -> None:
        self.tape, self.values, self.live, self.parameters, self.by_line = tape, values, live, parameters, by_line
        self.writes = tape if isinstance(tape, capabilities.Writes) else None
        self.late = tape if isinstance(tape, capabilities.Late) else None
        self.version = tape.version if isinstance(tape, capabilities.Versions) else _unchanging
        self.renewed: set[Value] = set()  # by the statement that is being recorded
        self.through: dict[int, tuple[Any, int]] = {}  # tensors written, weakly, and the version that made
        self.writers: dict[int, tuple[ScopeId, Site]] = {}  # of captures that were written out of sight, by identity

    def value(self, names: ScopeNames, item: Any, site: Site) -> Value:
        """The value that a tensor is: a known one, or a new one where the tensor or its version is new."""
        known = self.values.latest.get(self.tape.identity(item))
        if known is None:
            return self._capture(names, item, site, None)
        if self.version(item) != known.version:
            self.sweep(names, site)  # written out of sight: every name on that memory gets its new version
            swept = self.values.latest[self.tape.identity(item)]
            if swept is known:
                value = self._capture(names, item, site, known)
                self._note_writers(names.id, site)
                return value
            known = swept
        if self.late is not None:
            self.late.seen_again(known.capture)
        return known

    def _capture(self, names: ScopeNames, tensor: Any, site: Site, previous: Value | None) -> Value:
        version = self.version(tensor)
        writer, made = self.through.get(id(tensor), (None, None)) if self.through else (None, None)
        through = writer is not None and writer() is tensor and made == version
        around = functools.partial(mentions, self.parameters, names, site)
        if self.writes is None or (previous is None and not through):
            capture = self.tape.capture(tensor, around)
        else:
            capture = self.writes.capture(tensor, around, previous.capture if previous else None, through)
        value = Value(tensor, version, capture, names.id, site, previous=previous)
        self.values.latest[self.tape.identity(tensor)] = value
        self.values.made.append(value)
        return value

    def written(self, tensor: Any) -> None:
        """The program has written to a tensor."""
        if self.writes is None:
            return
        self.writes.written(tensor)
        self.through[id(tensor)] = (weakref.ref(tensor), self.version(tensor))

    def sweep(self, names: ScopeNames, site: Site) -> None:
        """Every live name whose memory has been written since gets a new version."""
        version = self.version
        if self.late is not None:
            self.late.look_again((names.id.file, site.line) if site.line and self.by_line else None)
        detached = () if self.writes is None else self.writes.detached()
        for value in self.values.latest.values() if detached else ():
            if value.capture in detached:
                value.version = DETACHED
        written = [
            (live, key) for live in self.live for key, slot in live.slots.items() for _, value in slot
            if value.tensor is not None and version(value.tensor) != value.version
        ]  # fmt: skip
        for live, key in dict.fromkeys(written) if written else ():
            self._renew(live, key, names, site)
        self._note_writers(names.id, site)

    def _note_writers(self, scope: ScopeId, site: Site) -> None:
        for capture in () if self.writes is None else self.writes.overwritten():
            self.writers[id(capture)] = (scope, site)

    def _renew(self, live: ScopeNames, key: str, names: ScopeNames, site: Site) -> None:
        local = key.partition(OWN)[0]
        slot, renewed = [], []
        for leaf, value in live.slots[key]:
            if value.tensor is not None and self.version(value.tensor) != value.version:
                latest = self.values.latest[self.tape.identity(value.tensor)]
                if self.version(value.tensor) != latest.version:
                    latest = self._capture(names, value.tensor, site, value)
                    explain_written(latest, names, site, local, value)
                    self.renewed.add(latest)
                renewed.append((leaf, latest))
                value = latest
            slot.append((leaf, value))
        live.bind(local, key.removeprefix(local), tuple(slot), tuple(renewed))

    def release(self) -> None:
        for held in (self.renewed, self.through, self.writers):
            held.clear()


def _unchanging(tensor: Any) -> int:
    """The version of every tensor where tensors keep their contents."""
    return 0
