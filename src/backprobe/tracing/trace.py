"""The trace of one recording: what its program reports, turned into named values.

The scopes of rewritten code report to a ``Trace``, which knows which of them are open; ``Naming`` names what they
bind, ``Versions`` knows which value each tensor is, and the backend's ``Tape`` captures it. Nothing here knows a
framework.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from backprobe.backends import capabilities
from backprobe.backends.facts import Effect
from backprobe.backends.protocol import Tape
from backprobe.record.containers import exchanged, holds, leaves
from backprobe.record.names import quote
from backprobe.record.patterns import Selection
from backprobe.record.reasons import Note
from backprobe.source.listener import Opener
from backprobe.source.sites import Site
from backprobe.tracing.followed_calls import Following
from backprobe.tracing.naming import Leaves, Naming
from backprobe.tracing.provenance import Parameters, explain, hand_over
from backprobe.tracing.recompute import Repeats
from backprobe.tracing.scope import Scope
from backprobe.tracing.values import NO_SITE, RETURNED, ScopeId, ScopeNames, Value, Values
from backprobe.tracing.versions import Versions

S = TypeVar("S", bound=Scope)
PLAIN = (bool, int, float, complex, type(None))


class Trace:
    """Everything one recording has seen."""

    def __init__(self, tape: Tape, selection: Selection, home: str | None = None) -> None:
        self.tape, self.selection, self.home = tape, selection, home
        self.tap, self.writes = tape.tap, tape if isinstance(tape, capabilities.Writes) else None
        self.effect = tape.effect if isinstance(tape, capabilities.Versions) else _reads
        self.operations = selection.asks_operations or self.tap is not None
        self.names_operations = selection.asks_operations
        self.is_recording = True
        self.values, self.parameters = Values(), Parameters()
        self.live: dict[ScopeNames, None] = {}
        self.versions = Versions(tape, self.values, self.live, self.parameters, by_line=selection.in_function)
        self.naming = Naming(
            tape, self.values, self.versions, self.parameters, operations=self.names_operations
        )  # fmt: skip
        self.notes = self.naming.notes
        self.entered: dict[str, int] = {}  # how often each module was entered
        self.finished: dict[str, list[ScopeNames]] = {}  # forwards that are over, before the module's own hooks
        self.repeats, self.following = Repeats(self), Following(self)
        root = ScopeId(None, "", 0)
        self.root: Scope = Scope(self, ScopeNames(root, None, selection.of_scope("")))
        self.last: tuple[ScopeId, Site] | None = None
        self.return_site = NO_SITE
        self.at_return = ScopeNames(root)

    # scopes

    def root_opener(self, name: str, file: str, sites: tuple[Site, ...]) -> Callable[[], Scope]:
        """What the probed function itself reports to. A recursive call of it is a scope of its own."""

        def opened() -> Scope:
            if self.root.names in self.live:
                return self.enter(self.root.names, name, file, sites)
            return self.open_root(file, sites)

        return opened

    def opener(self, caller: ScopeNames, label: str) -> Opener:
        """What a function called from ``caller`` reports to, whenever it is entered."""

        def open_with(name: str, file: str, sites: tuple[Site, ...]) -> Callable[[], Scope]:
            return lambda: self.enter(caller, label or name, file, sites)

        return open_with

    def module_opener(self, path: str) -> Opener:
        """What a module's forward reports to: its path is absolute, whoever calls it."""

        def open_with(name: str, file: str, sites: tuple[Site, ...]) -> Callable[[], Scope]:
            return lambda: self.enter_module(path, file, sites)

        return open_with

    def open_root(self, file: str, sites: Sequence[Site]) -> Scope:
        """The code that everything begins with runs now."""
        self.root.sites, self.root.names.id.file = sites, file
        self.live[self.root.names] = None
        return self.root

    def use_root(self, make: Callable[[Trace, ScopeNames], S]) -> S:
        """Let another kind of scope than a function's be the root."""
        self.root = root = make(self, self.root.names)
        return root

    def enter(self, caller: ScopeNames, name: str, file: str, sites: Sequence[Site]) -> Scope:
        path, entered = f"/{quote(name)}", caller.id.entered
        count = entered.get(path, 0)
        entered[path] = count + 1
        return self._opened(self._names(caller, path, count, file), sites)

    def enter_module(self, path: str, file: str = "", sites: Sequence[Site] = ()) -> Scope:
        now = self.repeats.now()
        if now is not self:
            return now.enter_module(path, file, sites)
        if not path:
            return self.open_root(file, sites)
        return self._opened(self._module(path, file), sites)

    def caller_again(self, names: ScopeNames) -> Scope:
        """In the trace of a repetition: the scope that what is computed again was called from."""
        scope = ScopeId(names.id.parent, names.id.path, names.id.count, names.id.file)
        return Scope(self, ScopeNames(scope, names.parent, names.wanted))

    def apart(self, is_recording: bool) -> Trace:
        """A trace of the same program, for what has its names already."""
        trace = Trace(self.tape, self.selection, self.home)
        trace.repeats, trace.is_recording = self.repeats, is_recording
        return trace

    def _module(self, path: str, file: str = "") -> ScopeNames:
        count = self.entered.get(path, 0)
        self.entered[path] = count + 1
        return self._names(None, path, count, file)

    def _names(self, caller: ScopeNames | None, path: str, count: int, file: str = "") -> ScopeNames:
        scope = ScopeId(None if caller is None else caller.id, path, count, file)
        return ScopeNames(scope, caller, self.selection.of_scope(scope.stripped), self.repeats.transcripts())

    def _opened(self, names: ScopeNames, sites: Sequence[Site]) -> Scope:
        if self.is_recording:
            self.live[names] = None
        return Scope(self, names, sites)

    def leave(self, names: ScopeNames) -> None:
        self.live.pop(names, None)
        names.returned.clear()
        hand_over(names)
        names.slots = {local: slot for local, slot in names.slots.items() if local == "return"}
        if names.id.path and names.parent is None:
            self.finished.setdefault(names.id.path, []).append(names)

    def close(self) -> None:
        """Nothing more is recorded."""
        self.is_recording = False

    def release(self) -> None:
        """Keep no value any longer, and no cycle that would keep one until the next garbage collection."""
        self.close()
        for names in [self.root.names, *self.live]:
            names.release()
        for held in (self.values, self.versions, self.parameters):
            held.release()
        self.live.clear()
        self.finished.clear()
        self.last, self.at_return = None, ScopeNames(self.root.names.id)
        if self.repeats.trace is self:
            self.repeats.release()
        del self.root, self.repeats, self.following

    def note(self, code: str, **fields: str) -> None:
        """Something could not be seen."""
        self.notes[Note(code, fields)] = None

    # what scopes report

    def name(self, names: ScopeNames, local: str, value: Any, site: Site, own: str = "") -> Any:
        """``value`` gets the name ``local``, as do the leaves of a container. Returns what the program goes on with."""
        if not self.is_recording:
            return value
        tape = self.tape
        if self.tap is not None:
            value = exchanged(value, self.tap, [])
        if self.names_operations or not local.endswith("()"):
            self.last = (names.id, site)
        if local == "return" and names is self.root.names and site.line:
            self.return_site, self.at_return = site, names.snapshot()
        if isinstance(value, PLAIN):  # most of what a program binds
            if names.wanted[local]:
                self.naming.plain(names, local, value, site, own)
            else:
                self.naming.passed_over(names, local, False, own)
            return value
        if tape.is_tensor(value):
            found: Leaves = (("", value),)
            wanted = found if names.wanted[local] else ()
        else:
            found = self._leaves(value)
            if not found:
                self.naming.carried(names, local, value, site, own)
                return value
            wanted = [one for one in found if names.wanted[local + one[0]]]
        with tape.quiet():
            if wanted:
                self.naming.bound(names, local, wanted, site, own)
            else:
                is_differentiated = any(tape.is_differentiated(item) for _, item in found)
                self.naming.passed_over(names, local, is_differentiated, own)
        return value

    def _leaves(self, value: Any) -> Leaves:
        """The tensors and plain numbers in a container that holds a tensor."""
        is_tensor = self.tape.is_tensor
        if not holds(value, is_tensor):
            return ()
        return [(leaf, item) for leaf, item in leaves(value) if isinstance(item, PLAIN) or is_tensor(item)]

    def done(self, names: ScopeNames, site: Site) -> None:
        self.naming.done(names, site)

    def returned(self, names: ScopeNames, output: Any) -> None:
        if self.is_recording:
            with self.tape.quiet():
                self.naming.mentioned(names, (("", output),) if self.tape.is_tensor(output) else self._leaves(output))

    def call_writer(self, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Call what may write to some of its arguments, saving before and looking after."""
        targets = self.targets(function, args, kwargs)
        for tensor in targets:
            self.writing(tensor)
        result = function(*args, **kwargs)
        for tensor in targets:
            self.written(tensor)
        return result

    def targets(self, function: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> list[Any]:
        if self.writes is None:
            return []
        with self.tape.quiet():
            return self.writes.targets(function, tuple(args), kwargs)

    def writing(self, tensor: Any) -> None:
        if self.writes is not None:
            with self.tape.quiet():
                self.writes.writing(tensor)

    def written(self, tensor: Any) -> None:
        with self.tape.quiet():
            self.versions.written(tensor)

    def expose(self, tensor: Any) -> None:
        if self.writes is not None:
            with self.tape.quiet():
                self.writes.expose(tensor)

    def stored(self) -> None:
        self.versions.renewed.clear()

    def sweep(self, names: ScopeNames, site: Site) -> None:
        """Every live name whose memory has been written since gets a new version."""
        if self.is_recording:
            with self.tape.quiet():
                self.versions.sweep(names, site)

    # what modules report

    def name_returned(self, path: str, output: Any) -> Any:
        """A module has returned, its own hooks included; ``output`` is what its caller gets."""
        now = self.repeats.now()
        if now is not self:
            return now.name_returned(path, output)
        if not self.is_recording:
            return output
        if not path:
            return self.name_result(output, RETURNED)
        finished = self.finished.get(path)
        return self.name(finished.pop() if finished else self._module(path), "return", output, NO_SITE)

    def name_path(self, path: str, tensor: Any) -> Any:
        """A parameter of a model: its name is its path."""
        if self.tap is not None:
            with self.tape.quiet():
                tensor = self.tap(tensor)
        if self.selection.might_want(path):
            with self.tape.quiet():
                self.naming.parameter(path, tensor, self.root.names)
        return tensor

    # what the probe itself names

    def name_result(self, result: Any, site: Site = NO_SITE) -> Any:
        """What the probed function returned. Returns what takes its place."""
        return self.name(self.root.names, "return", result, site)

    def hold_output(self, tensor: Any, path: str | None, name: str = "return", site: Site | None = None) -> Value:
        """The value that is differentiated, which always has an entry.

        Without a path in what has this name it was computed from that. ``site`` is where the name was bound.
        """
        site = self.return_site if site is None else site
        with self.tape.quiet():
            if self.tap is not None:
                tensor = self.tap(tensor)
            value = self.hold(tensor, *(("of()", "") if path is None else (name, path)), site)
            if path is not None and value.site is site and not value.expression:
                explain(value, site.origin.at(path), self.at_return, self.parameters, self.versions.renewed)
        return value

    def hold_at(self, tensor: Any, site: Site, file: str) -> Value:
        """The value that a tensor is, which stands in a line of a file without a name, and what that line mentions."""
        self.is_recording = True
        running = (names for names in reversed(list(self.live)) if names.id.file == file)
        names = next(running, None) or ScopeNames(ScopeId(None, "", 0, file))  # a block around a model has none
        with self.tape.quiet():
            value = self.hold(tensor, site.local, "", site, names)
            explain(value, site.origin, names, self.parameters, self.versions.renewed)
        return value

    def hold(self, tensor: Any, local: str, leaf: str, site: Site = NO_SITE, names: ScopeNames | None = None) -> Value:
        """The value that a tensor is, under a local of the root where it has no name; its line mentions ``names``."""
        return self.naming.output(self.root.names.id, local, leaf, tensor, site, names or self.root.names)

    def hold_unnamed(self) -> None:
        """What is differentiated and was read under no name gets one, which the framework has for it."""
        with self.tape.quiet():
            self.naming.unnamed(self.root.names.id)


def _reads(function: Any, flagged: bool) -> Effect:
    """The effect of every call where tensors keep their contents."""
    return Effect.READS
