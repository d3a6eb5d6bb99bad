"""What a running program reports, turned into named values: counts, aliases and versions.

A ``Trace`` belongs to one recording. The rewritten functions talk to its ``Scope``s, which know names; the backend's
``Tape`` knows tensors. Nothing here knows a framework.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from backprobe.backends.protocol import Tape
from backprobe.cuts.usage import may_cut
from backprobe.record.containers import exchanged, holds, leaves
from backprobe.record.entries import GradStatus
from backprobe.record.names import partition, quote
from backprobe.record.patterns import Selection
from backprobe.record.reasons import Note, Reason
from backprobe.source.sites import Origin, Site
from backprobe.tracing.followed_calls import Following
from backprobe.tracing.mentioned import NO_SITE, RETURNED, Mentioned, Parameters, mentions
from backprobe.tracing.provenance import carry, given, hand_over, through, written
from backprobe.tracing.recompute import Repeats
from backprobe.tracing.scope import OWN, Scope, Slot, Value

PLAIN = (bool, int, float, complex, type(None))
T = TypeVar("T")
Leaves = Sequence[tuple[str, Any]]
DETACHED = -1  # no version of any tensor: what has this name is another one, though nobody has written to it


def quietly(method: Callable[..., T]) -> Callable[..., T]:
    """A method of ``Trace`` in the course of which the user's own modes see nothing of what the tape does."""

    @functools.wraps(method)
    def quiet(self: Trace, *args: Any) -> T:
        with self.tape.quiet():
            return method(self, *args)

    return quiet


def _may_say_more(value: Value, site: Site) -> bool:
    """Is the result of a call perhaps cut off in the line that binds it? A function's is known by its own lines.

    What a module was given has a name of its own in there, and no line.
    """
    is_modules = value.scope is not None and value.scope.parent is None
    return is_modules or may_cut(site.origin.expression) or not (value.reads or value.passages)


class Trace:
    """Everything one recording has seen."""

    def __init__(self, tape: Tape, selection: Selection, home: str | None = None) -> None:
        self.tape, self.selection, self.home = tape, selection, home
        self.operations = selection.asks_operations or tape.exchanges
        self.names_operations = selection.asks_operations
        self.values: list[Value] = []
        self.notes: dict[Note, None] = {}
        self.seen: dict[str, None] = {}  # names the program has that were not selected
        self.is_recording = True
        self.latest: dict[int, Value] = {}  # by identity of the tensor, which the value keeps alive
        self.live: dict[Scope, None] = {}
        self.entered: dict[str, int] = {}  # how often each module was entered
        self.finished: dict[str, list[Scope]] = {}  # forwards that are over, before the module's own hooks
        self.renewed: set[Value] = set()  # by the statement that is being recorded
        self.through: dict[int, tuple[Any, int]] = {}  # tensors written, weakly, and the version that made
        self.parameters = Parameters()
        self.writers: dict[int, tuple[Scope, Site]] = {}  # of captures that were written out of sight, by identity
        self.root = Scope(self, None, "", 0)
        self.repeats, self.following = Repeats(self), Following(self)
        self.last: tuple[Scope, Site] | None = None
        self.return_site = NO_SITE
        self.at_return = Mentioned()

    # scopes

    def root_opener(self, name: str, file: str, sites: tuple[Site, ...]) -> Callable[[], Scope]:
        """What the probed function itself reports to. A recursive call of it is a scope of its own."""

        def opened() -> Scope:
            if self.root in self.live:
                return self._enter(self.root, f"/{quote(name)}", file, sites)
            self.root.sites, self.root.file = sites, file
            self.live[self.root] = None
            return self.root

        return opened

    def opener(self, parent: Scope, label: str) -> Callable[[str, str, tuple[Site, ...]], Callable[[], Scope]]:
        """What a function called from ``parent`` reports to, whenever it is entered."""

        def open_with(name: str, file: str, sites: tuple[Site, ...]) -> Callable[[], Scope]:
            return lambda: self._enter(parent, f"/{quote(label or name)}", file, sites)

        return open_with

    def module_opener(self, path: str) -> Callable[[str, str, tuple[Site, ...]], Callable[[], Scope]]:
        """What a module's forward reports to: its path is absolute, whoever calls it."""

        def open_with(name: str, file: str, sites: tuple[Site, ...]) -> Callable[[], Scope]:
            return lambda: self.enter_module(path, file, sites)

        return open_with

    def apart(self, is_recording: bool) -> Trace:
        """A trace of the same program, for what has its names already."""
        trace = Trace(self.tape, self.selection, self.home)
        trace.repeats, trace.is_recording = self.repeats, is_recording
        return trace

    def enter_module(self, path: str, file: str = "", sites: tuple[Site, ...] = ()) -> Scope:
        now = self.repeats.now()
        if now is not self:
            return now.enter_module(path, file, sites)
        if not path:
            self.root.sites, self.root.file = sites, file
            self.live[self.root] = None
            return self.root
        scope = self._entered(path, file, sites)
        if self.is_recording:
            self.live[scope] = None
        return scope

    def _entered(self, path: str, file: str, sites: tuple[Site, ...]) -> Scope:
        count = self.entered.get(path, 0)
        self.entered[path] = count + 1
        return self._opened(Scope(self, None, path, count, file), sites)

    def _enter(self, parent: Scope, label: str, file: str, sites: tuple[Site, ...]) -> Scope:
        count = parent.entered.get(label, 0)
        parent.entered[label] = count + 1
        scope = self._opened(Scope(self, parent, label, count, file), sites)
        if self.is_recording:
            self.live[scope] = None
        return scope

    def _opened(self, scope: Scope, sites: tuple[Site, ...]) -> Scope:
        scope.sites = sites
        scope.logs = self.repeats.logs()
        return scope

    def leave(self, scope: Scope) -> None:
        if scope.dirty and self.is_recording:
            self.sweep(scope, NO_SITE)
        self.live.pop(scope, None)
        scope.returned.clear()
        if scope.carried:
            hand_over(scope)
        if scope.parent is not None and "return" in scope.slots:
            scope.parent.returned.append((f"{scope.path[1:]}()", scope.slots["return"]))
        scope.slots = {local: slot for local, slot in scope.slots.items() if local == "return"}
        if scope.path and scope.parent is None:
            self.finished.setdefault(scope.path, []).append(scope)

    def close(self) -> None:
        """Nothing more is recorded."""
        self.is_recording = False

    def release(self) -> None:
        """Keep no value any longer, and no cycle that would keep one until the next garbage collection."""
        self.close()
        scopes = {named[0]: None for value in self.values for named in value.names}
        for value in self.values:
            value.names.clear()
            value.passages = ()
        for scope in [self.root, *self.live, *scopes]:
            if scope is not None:
                scope.slots, scope.returned, scope.carried = {}, [], {}
        for held in (self.values, self.latest, self.live, self.finished, self.through, self.renewed, self.writers):
            held.clear()
        self.last, self.at_return, self.parameters = None, Mentioned(), Parameters()
        if self.repeats.trace is self:
            self.repeats.release()
        del self.root, self.repeats, self.following

    # calls that write

    def call_writer(self, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Call what may write to some of its arguments, saving before and looking after."""
        targets = self.targets(function, args, kwargs)
        for tensor in targets:
            self.writing(tensor)
        result = function(*args, **kwargs)
        for tensor in targets:
            self.written(tensor)
        return result

    @quietly
    def targets(self, function: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> list[Any]:
        return self.tape.targets(function, tuple(args), kwargs)

    # naming values

    def name(self, scope: Scope, local: str, value: Any, site: Site, own: str = "") -> Any:
        """``value`` gets the name ``local`` in ``scope``, as do the leaves of a container.

        ``own`` tells the variable of a comprehension from one of the function with the same name. Returns what the
        program goes on with.
        """
        if not self.is_recording:
            return value
        tape = self.tape
        if tape.exchanges:
            value = exchanged(value, tape.tap, [])
        if self.names_operations or not local.endswith("()"):
            self.last = (scope, site)
        if local == "return" and scope is self.root and site.line:
            self.return_site, self.at_return = site, Mentioned.of(scope)
        if isinstance(value, PLAIN):  # most of what a program binds
            if scope.wanted[local]:
                self._bind_plain(scope, local, value, site, own)
            else:
                self._pass_over(scope, local, (), own)
        elif tape.is_tensor(value):
            found = (("", value),)
            if scope.wanted[local]:
                with tape.quiet():
                    self._bind(scope, local, found, site, own)
            else:
                self._pass_over(scope, local, found, own)
        else:
            self._name_leaves(scope, local, value, site, own)
        return value

    def _name_leaves(self, scope: Scope, local: str, value: Any, site: Site, own: str) -> None:
        found = self._leaves(value)
        wanted = [one for one in found if scope.wanted[local + one[0]]]
        if wanted:
            with self.tape.quiet():
                self._bind(scope, local, wanted, site, own)
        elif found:
            self._pass_over(scope, local, found, own)
        else:
            self._forget(scope, local, own)
            carry(scope, local, value, site)

    def _pass_over(self, scope: Scope, local: str, found: Leaves, own: str) -> None:
        """What was not selected has a name all the same."""
        if self.names_operations or not local.endswith("()"):
            self.seen[f"{scope.stripped}:{local}"] = None
        self._forget(scope, local, own)
        if found:
            with self.tape.quiet():
                scope.passed_over[local] = any(self.tape.is_differentiated(item) for _, item in found)

    def _forget(self, scope: Scope, local: str, own: str) -> None:
        scope.slots.pop(local + own, None)
        scope.passed_over[local] = False

    def _bind_plain(self, scope: Scope, local: str, value: Any, site: Site, own: str) -> None:
        """A number or None, which is bound anew each time."""
        known = Value(None, 0, None, scope, site, plain=value)
        self.values.append(known)
        self._hold(scope, local, (("", known),), site, own)

    def _bind(self, scope: Scope, local: str, wanted: Leaves, site: Site, own: str) -> None:
        held = scope.slots.get(local + own)
        if held and len(held) == len(wanted) and self._same(held, wanted):
            self._explain(held, scope, site)
            return  # re-binding a name to the same object is no new binding
        self._hold(scope, local, tuple([(leaf, self._value(scope, item, site)) for leaf, item in wanted]), site, own)

    def _hold(self, scope: Scope, local: str, slot: Slot, site: Site, own: str) -> None:
        """The values of a slot get their name, which holds them from now on."""
        count = scope.counts.get(local, 0)
        scope.counts[local] = count + 1
        for leaf, value in slot:
            value.names.append((scope, local, count, leaf))
        self._explain(slot, scope, site)
        scope.slots[local + own] = slot
        for log in scope.logs:
            log.append((scope.stripped, local, slot))

    def _explain(self, slot: Slot, scope: Scope, site: Site) -> None:
        """Note what computes the values that this statement made, and those that this mentions, as they were before."""
        if site is not NO_SITE and site is not RETURNED:
            for leaf, value in slot:
                if value.site is site and value.scope is scope and not value.is_explained:
                    value.is_explained = True
                    self._explain_one(value, site.origin.at(leaf) if leaf else site.origin, scope)
                elif value.scope is not scope and scope.has_returned(value) and _may_say_more(value, site):
                    value.passages = [*value.passages, *given(scope, site, value)]
        if self.renewed:
            self.renewed.clear()

    def _explain_one(self, value: Value, origin: Origin, around: Scope | Mentioned) -> None:
        value.expression = origin.expression
        if around.calls:
            value.calls = tuple(around.calls)
        if around.carried:
            value.passages = through(around, origin.reads)
        slots, renewed = around.slots, self.renewed
        mentioned = [(name, slots[name]) for name in origin.reads if name in slots]
        if self.parameters.slots:
            mentioned += [(name, self.parameters.of(value.scope, name)) for name in origin.reads if name not in slots]
        if mentioned or around.returned:
            value.reads = [
                (spelled + inside, before)
                for spelled, held in [*mentioned, *around.returned] for inside, read in held
                if (before := read.previous if read in renewed else read) is not None and before is not value
            ]  # fmt: skip

    def _leaves(self, value: Any) -> Leaves:
        """The tensors and plain numbers in a container that holds a tensor."""
        is_tensor = self.tape.is_tensor
        if not holds(value, is_tensor):
            return ()
        return [(leaf, item) for leaf, item in leaves(value) if isinstance(item, PLAIN) or is_tensor(item)]

    def _same(self, held: Slot, found: Leaves) -> bool:
        """Does a name already hold these very objects, at these versions? Numbers alone are bound anew each time."""
        identity = self.tape.identity
        for (old, value), (leaf, item) in zip(held, found, strict=True):
            if old != leaf:
                return False
            if value.tensor is None:
                if item is not value.plain:
                    return False
            elif identity(item) != identity(value.tensor) or self.tape.version(item) != value.version:
                return False
        return any(value.tensor is not None for _, value in held)

    def _value(self, scope: Scope, item: Any, site: Site) -> Value:
        """The value that an object is: a known one, or a new one where the object or its version is new."""
        if not self.tape.is_tensor(item):
            value = Value(None, 0, None, scope, site, plain=item)
            self.values.append(value)
            return value
        known = self.latest.get(self.tape.identity(item))
        if known is None:
            return self._capture(scope, item, site, None)
        if self.tape.version(item) != known.version:
            self.sweep(scope, site)  # written out of sight: every name on that memory gets its new version
            swept = self.latest[self.tape.identity(item)]
            if swept is known:
                value = self._capture(scope, item, site, known)
                self._note_writers(scope, site)
                return value
            known = swept
        self.tape.seen_again(known.capture)
        return known

    def _capture(self, scope: Scope, tensor: Any, site: Site, previous: Value | None) -> Value:
        version = self.tape.version(tensor)
        writer, made = self.through.get(id(tensor), (None, None)) if self.through else (None, None)
        through = writer is not None and writer() is tensor and made == version
        around = functools.partial(mentions, scope, site)
        capture = self.tape.capture(tensor, around, previous.capture if previous else None, through)
        value = Value(tensor, version, capture, scope, site, previous=previous)
        self.latest[self.tape.identity(tensor)] = value
        self.values.append(value)
        return value

    def name_returned(self, path: str, output: Any) -> Any:
        """A module has returned, its own hooks included; ``output`` is what its caller gets."""
        now = self.repeats.now()
        if now is not self:
            return now.name_returned(path, output)
        if not self.is_recording:
            return output
        finished = self.finished.get(path)
        if not path:
            scope = self.root
        elif finished:
            scope = finished.pop()
        else:
            scope = self._entered(path, "", ())
        return self.name(scope, "return", output, NO_SITE if path else RETURNED)

    @quietly
    def mention_returned(self, scope: Scope, output: Any) -> None:
        """A module that ``scope`` called has returned: as the last of its names says, where it was selected."""
        if not self.is_recording:
            return
        found = (("", output),) if self.tape.is_tensor(output) else self._leaves(output)
        held = [(leaf, self.latest.get(self.tape.identity(item))) for leaf, item in found if self.tape.is_tensor(item)]
        for leaf, value in held:
            above, local, _, _ = value.names[-1] if value is not None and value.names else (None, "", 0, "")
            if value is not None and above is not None and local == "return":
                scope.returned.append((f"{partition(above.path, '.')[-1]}()", ((leaf, value),)))

    def name_path(self, path: str, tensor: Any) -> Any:
        """A parameter of a model: its name is its path."""
        if self.tape.exchanges:
            with self.tape.quiet():
                tensor = self.tape.tap(tensor)
        if self.selection.might_want(path):
            with self.tape.quiet():
                value = self._value(self.root, tensor, NO_SITE)
            value.names.append((None, path, 0, ""))
            self.parameters.add(path, value)
        return tensor

    def name_absent(self, path: str, status: GradStatus, why: Reason) -> None:
        """A module that was selected, and whose return value is not there."""
        scope = Scope(self, None, path, 0)
        value = Value(None, 0, None, scope, NO_SITE, absent=(status, why))
        value.names.append((scope, "return", 0, ""))
        self.values.append(value)

    @quietly
    def hold_output(self, tensor: Any, path: str | None) -> Value:
        """The value that is differentiated, which always has an entry."""
        if self.tape.exchanges:
            tensor = self.tape.tap(tensor)
        value = self.hold(tensor, *(("of()", "") if path is None else ("return", path)), self.return_site)
        if path is not None and value.site is self.return_site and not value.expression:
            self._explain_one(value, self.return_site.origin.at(path), self.at_return)
        return value

    @quietly
    def hold_unnamed(self) -> None:
        """What is differentiated and was read under no name gets one, which the framework has for it."""
        held = [value for value in self.values if value.capture is not None]
        for name, capture, before in self.tape.unnamed([value.capture for value in held]):
            value = Value(capture.source, capture.version, capture, self.root, NO_SITE)
            local = quote(name)
            count = self.root.counts.get(local, 0)
            self.root.counts[local] = count + 1
            value.names.append((self.root, local, count, ""))
            at = self.values.index(held[before]) if before < len(held) else len(self.values)
            self.values.insert(at, value)

    @quietly
    def hold_at(self, tensor: Any, site: Site, scope: Scope) -> Value:
        """The value that a tensor is, which stands in a line without a name, and what that line mentions."""
        self.is_recording = True
        value = self.hold(tensor, site.local, "", site, scope)
        self._explain_one(value, site.origin, scope)
        return value

    def hold(self, tensor: Any, local: str, leaf: str, site: Site = NO_SITE, scope: Scope | None = None) -> Value:
        """The value that a tensor is, under a local of the root where it has no name; ``scope`` has its line."""
        known = self.latest.get(self.tape.identity(tensor))
        value = self._value(scope or self.root, tensor, site)
        if value is not known or not value.names:
            count = self.root.counts.get(local, 0)
            self.root.counts[local] = count + 1
            value.names.append((self.root, local, count, leaf))
        return value

    # versions

    @quietly
    def writing(self, tensor: Any) -> None:
        self.tape.writing(tensor)

    @quietly
    def expose(self, tensor: Any) -> None:
        self.tape.expose(tensor)

    @quietly
    def written(self, tensor: Any) -> None:
        self.tape.written(tensor)
        self.through[id(tensor)] = (weakref.ref(tensor), self.tape.version(tensor))

    @quietly
    def sweep(self, scope: Scope, site: Site) -> None:
        """Every live name whose memory has been written since gets a new version."""
        if not self.is_recording:
            return
        version = self.tape.version
        self.tape.look_again((scope.file, site.line) if site.line and self.selection.in_function else None)
        detached = self.tape.detached()
        for value in self.latest.values() if detached else ():
            if value.capture in detached:
                value.version = DETACHED
        written = [
            (live, key) for live in self.live for key, slot in live.slots.items() for _, value in slot
            if value.tensor is not None and version(value.tensor) != value.version
        ]  # fmt: skip
        for live, key in dict.fromkeys(written):
            self._renew(live, key, scope, site)
        self._note_writers(scope, site)

    def _note_writers(self, scope: Scope, site: Site) -> None:
        for capture in self.tape.overwritten():
            self.writers[id(capture)] = (scope, site)

    def _renew(self, live: Scope, key: str, scope: Scope, site: Site) -> None:
        local = key.partition(OWN)[0]
        count = live.counts[local]
        live.counts[local] = count + 1
        slot = []
        for leaf, value in live.slots[key]:
            if value.tensor is not None and self.tape.version(value.tensor) != value.version:
                latest = self.latest[self.tape.identity(value.tensor)]
                if self.tape.version(value.tensor) != latest.version:
                    latest = self._capture(scope, value.tensor, site, value)
                    latest.passages = written(scope, site, local, value)
                    self.renewed.add(latest)
                latest.names.append((live, local, count, leaf))
                slot.append((leaf, latest))
            else:
                slot.append((leaf, value))
        live.slots[key] = tuple(slot)
        for log in live.logs:
            log.append((live.stripped, local, tuple(slot)))
