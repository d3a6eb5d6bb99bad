"""The trace of one recording: the log of its program, the captures in it, and the reader that names them.

While the program runs, the scopes of rewritten code report to a ``Trace``. It captures tensors (``Versions``, by the
backend's ``Tape``) and writes down which were bound where; nothing is named. The ``Reader`` does that, when the
program is over or somebody asks before. Nothing here knows a framework.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any, TypeVar

from backprobe.backends import capabilities
from backprobe.backends.facts import Effect
from backprobe.backends.protocol import Tape
from backprobe.record.containers import children, exchanged, holds, leaves
from backprobe.record.entries import GradStatus
from backprobe.record.names import quote
from backprobe.record.patterns import Selection
from backprobe.record.reasons import Note, Reason
from backprobe.source.followed_calls import LOCALS
from backprobe.source.listener import Opener
from backprobe.source.sites import Site
from backprobe.tracing import schema as schemas
from backprobe.tracing.followed_calls import Following
from backprobe.tracing.log import (
    ABSENT,
    AGAIN,
    CARRIED,
    DIFFERENTIATED,
    ENTER,
    FILLED,
    HELD,
    LEAVE,
    MENTIONED,
    MODULE,
    NO_SITE_AT,
    OUTPUT,
    PARAMETER,
    PASSED_OVER,
    PLAIN,
    RESULT,
    SAME_PLAIN,
    Code,
    Log,
    ScopeKind,
)
from backprobe.tracing.provenance import FILLED as CONTAINERS
from backprobe.tracing.reader import Reader
from backprobe.tracing.recompute import Repeats
from backprobe.tracing.schema import Schema, schema_of
from backprobe.tracing.scope import Scope
from backprobe.tracing.values import ScopeNames, Value
from backprobe.tracing.versions import By, Versions

S = TypeVar("S", bound=Scope)
NUMBERS = (bool, int, float, complex, type(None))
MOST_TYPES = 4096
HOLD_NOTHING = frozenset({str, bytes, type, FunctionType, MethodType, BuiltinFunctionType})
"""Types of values that are looked at often, and never hold a tensor that has a name in them."""


class Trace:
    """Everything one recording has seen."""

    def __init__(
        self, tape: Tape, selection: Selection, home: str | None = None, *, is_apart: bool = False
    ) -> None:  # fmt: skip
        self.tape, self.selection, self.home = tape, selection, home
        self.tap, self.writes = tape.tap, tape if isinstance(tape, capabilities.Writes) else None
        self.ordinary, self.disturbed = tape.ordinary, tape.disturbed
        self.runs_once = tape.runs_once if isinstance(tape, capabilities.Recompute) else _always
        self.effect = tape.effect if isinstance(tape, capabilities.Versions) else _reads
        self.operations = selection.asks_operations or self.tap is not None
        self.is_recording = True
        self.log = Log()
        self.events = self.log.events
        self.versions = Versions(tape, self.events, self._around, by_line=selection.in_function)
        self.scopes = 1
        self.reader = Reader(tape, selection, self.log, self.versions)
        self.notes: dict[Note, None] = {}
        self.repeats, self.following = Repeats(self), Following(self)
        self.mixed: dict[str, Sequence[tuple[str, Any]]] = {}  # what modules' forwards have returned, see ``Scope``
        self.root = Scope(self, ScopeKind.of(selection, "", "", "", ()))
        self.is_root_open = False
        self.has_more = False  # does the reader know more than the log says?
        if isinstance(tape, capabilities.Late) and not is_apart:
            tape.before_late = self._read_all

    def read(self) -> Reader:
        """Name what was reported so far."""
        self.reader.read()
        return self.reader

    def _read_all(self) -> None:
        """Read this log, and those of the parts that are being computed again."""
        for trace in (self, *(repeat for repeat, _ in self.repeats.again.values())):
            trace.read()

    def schema(self, outputs: Collection[int]) -> Schema:
        """What this log says of its values, ``outputs`` being the numbers of what is differentiated."""
        known = None
        if self.is_repeatable and not self.reader.at:
            known = schemas.find(self.selection, self.events, outputs)
        if known is None or schemas.compare is not None:
            made = schema_of(self.read(), self.selection, list(self.events), outputs)
            if known is not None and schemas.compare is not None:
                schemas.compare(known, made)
            elif self.is_repeatable and not self.is_recording:
                schemas.keep(self.selection, made)
            return made
        self._decide(known)
        return known

    @property
    def is_repeatable(self) -> bool:
        """Does the log alone say what its reader makes of it?"""
        return self.writes is not None and not self.log.transcripts and not self.has_more

    def _decide(self, schema: Schema) -> None:
        """Why each capture without history has none."""
        if self.writes is not None and self.writes.undecided:
            captures, undecided = self.versions.captures, self.writes.undecided
            for number, around in schema.around.items():
                if captures[number] in undecided:
                    self.versions.decide(self.writes, number, around)

    def schema_so_far(self, numbers: Collection[int], outputs: Sequence[Value] = ()) -> Schema:
        """The schema of a program that may go on, with more outputs than those of these numbers."""
        return schema_of(self.read(), self.selection, list(self.events), numbers, outputs)

    def captures(self, schema: Schema) -> list[Any]:
        """What the tape has captured of the entries of a schema."""
        return [self.versions.captures[number] for number in schema.numbers]

    def _around(self, by: By, at: int | Site) -> Any:
        return self.read().around(by, at)

    # scopes

    def root_opener(self, name: str, file: str, sites: tuple[Site, ...]) -> Callable[[], Scope]:
        """What the probed function itself reports to. A recursive call of it is a scope of its own."""

        def opened() -> Scope:
            if self.is_root_open:
                return self.enter(self.root, name, file, sites)
            return self.open_root(file, sites)

        return opened

    def opener(self, caller: Scope, label: str) -> Opener:
        """What a function called from ``caller`` reports to, whenever it is entered."""

        def open_with(name: str, file: str, sites: tuple[Site, ...]) -> Callable[[], Scope]:
            return partial(self.enter, caller, label or name, file, sites)

        return open_with

    def module_opener(self, path: str) -> Opener:
        """What a module's forward reports to: its path is absolute, whoever calls it."""

        def open_with(name: str, file: str, sites: tuple[Site, ...]) -> Callable[[], Scope]:
            return partial(self.enter_module, path, file, sites)

        return open_with

    def open_root(self, file: str, sites: Sequence[Site]) -> Scope:
        """The code that everything begins with runs now."""
        root = self.root
        root.kind = kind = ScopeKind.of(self.selection, "", "", file, sites)
        root.sites, root.locals, root.base, root.taken = sites, kind.locals, len(self.versions.live), 0
        root.places.clear()
        self.is_root_open = True
        self._say(0, ENTER, kind)
        return root

    def use_root(self, make: Callable[[Trace, ScopeKind], S]) -> S:
        """Let another kind of scope than a function's be the root."""
        self.root = root = make(self, self.root.kind)
        return root

    def enter(self, caller: Scope, name: str, file: str, sites: Sequence[Site]) -> Scope:
        kind = ScopeKind.of(self.selection, f"/{quote(name)}", caller.kind.stripped, file, sites)
        return self._entered(caller.number, kind)

    def enter_module(self, path: str, file: str = "", sites: Sequence[Site] = ()) -> Scope:
        now = self.repeats.now()
        if now is not self:
            return now.enter_module(path, file, sites)
        if not path:
            return self.open_root(file, sites)
        return self._entered(0, ScopeKind.of(self.selection, path, "", file, sites))

    def _entered(self, caller: int, kind: ScopeKind) -> Scope:
        number = 0
        if self.is_recording:
            number, self.scopes = self.scopes, self.scopes + 1
            if self.repeats.again or not self.runs_once():
                self._note_transcripts()
            self.events += (caller, ENTER, kind)
        return Scope(self, kind, number, len(self.versions.live))

    def _note_transcripts(self) -> None:
        transcripts = self.repeats.transcripts()
        if transcripts:
            self.log.transcripts[len(self.events)] = transcripts

    def caller_again(self, kind: ScopeKind, names: ScopeNames) -> Scope:
        """In the trace of a repetition: the scope that what is computed again was called from."""
        self._say(0, AGAIN, names)
        number, self.scopes = self.scopes, self.scopes + 1
        return Scope(self, kind, number, len(self.versions.live))

    def names_of(self, scope: Scope) -> ScopeNames:
        """The names of a scope as they are now."""
        return self.read().scopes[scope.number]

    def apart(self, is_recording: bool) -> Trace:
        """A trace of the same program, for what has its names already."""
        trace = Trace(self.tape, self.selection, self.home, is_apart=True)
        trace.repeats, trace.is_recording = self.repeats, is_recording
        return trace

    def forget(self, scope: Scope, keys: Sequence[str]) -> None:
        """These names of a scope are no names any longer."""
        self.versions.forget(scope, *keys)

    def leave(self, scope: Scope) -> None:
        if self.is_recording:
            self.is_root_open &= scope is not self.root
            self.versions.leave(scope)
            if scope.mixed and "return" in scope.mixed and not scope.kind.path.startswith("/"):
                self.mixed[scope.kind.path] = scope.mixed["return"]
            self.events += (scope.number, LEAVE, None)

    def close(self) -> None:
        """Nothing more is recorded."""
        self.is_recording = False

    def release(self) -> None:
        """Keep no value any longer, and no cycle that would keep one until the next garbage collection."""
        self.close()
        if self.repeats.trace is self:
            self.repeats.release()
        self.reader.release()
        self.versions.release()
        self.mixed.clear()
        self.log.plain.clear()
        self.log.transcripts.clear()
        del self.root, self.repeats, self.following

    def note(self, code: str, **fields: str) -> None:
        """Something could not be seen."""
        self.notes[Note(code, fields)] = None

    def _say(self, scope: int, word: int, said: Any) -> None:
        if self.is_recording:
            self.events += (scope, word, said)

    # what is bound

    def code(self, scope: Scope, local: str, at: int, value: Any, own: str = "") -> Code:
        """What a local is bound to, as the log says it: a tensor is captured, and its name is live."""
        wanted, kind = scope.kind.wanted, type(value)
        if kind in self.ordinary and not self.disturbed():
            if wanted[local]:
                number = self.versions.number(value, scope, at)
                self.versions.lives(scope, local + own if own else local, (number,))
                return number
            return DIFFERENTIATED if self.tape.is_differentiated(value) else PASSED_OVER
        if local + own in scope.places:
            self.versions.forget(scope, local + own)
        if kind in NUMBERS or isinstance(value, NUMBERS):
            if not wanted[local]:
                return PASSED_OVER
            self.log.plain.append(value)
            return PLAIN
        if kind in HOLD_NOTHING:
            return CARRIED
        if not self.tape.is_tensor(value):
            return self._of_container(scope, local, at, value, own)
        with self.tape.quiet():
            if not wanted[local]:
                return DIFFERENTIATED if self.tape.is_differentiated(value) else PASSED_OVER
            number = self.versions.number(value, scope, at)
            self.versions.lives(scope, local + own, (number,))
        return number

    def _of_container(self, scope: Scope, local: str, at: int, value: Any, own: str) -> Code:
        found = self._leaves(value)
        wanted = scope.kind.wanted
        chosen = [(leaf, item) for leaf, item in found if wanted[local + leaf]]
        if not chosen:
            return self._unselected(value, found)
        same = _same(chosen, scope.mixed.get(local + own, ()))
        with self.tape.quiet():
            code = self._codes(chosen, scope, at, same)
            self.versions.lives(scope, local + own, [number for _, number in code if number >= 0])
        if any(number < 0 for _, number in code):
            scope.mixed[local + own] = chosen
        return code

    def _codes(
        self, chosen: Sequence[tuple[str, Any]], by: By, at: int, same: set[str] | frozenset[str] = frozenset()
    ) -> tuple[tuple[str, int], ...]:
        """The codes of the leaves of a container; those in ``same`` are the objects that the name held before."""
        codes = []
        for leaf, item in chosen:
            if isinstance(item, NUMBERS):
                self.log.plain.append(item)
                codes.append((leaf, SAME_PLAIN if leaf in same else PLAIN))
            else:
                codes.append((leaf, self.versions.number(item, by, at)))
        return tuple(codes)

    def _unselected(self, value: Any, found: Sequence[tuple[str, Any]]) -> int:
        if not found:
            return FILLED if type(value) in CONTAINERS else CARRIED
        with self.tape.quiet():
            return DIFFERENTIATED if any(self.tape.is_differentiated(item) for _, item in found) else PASSED_OVER

    def _leaves(self, value: Any) -> Sequence[tuple[str, Any]]:
        """The tensors and plain numbers in a container that holds a tensor."""
        is_tensor, ordinary = self.tape.is_tensor, self.ordinary
        kind = type(value)
        if kind in self.selection.bare:
            return ()
        if not holds(value, is_tensor):
            if LOCALS not in kind.__qualname__ and len(self.selection.bare) < MOST_TYPES and children(value) is None:
                self.selection.bare.add(kind)
            return ()
        return [
            (leaf, item) for leaf, item in leaves(value)
            if type(item) in ordinary or isinstance(item, NUMBERS) or is_tensor(item)
        ]  # fmt: skip

    def mentioned(self, scope: Scope, output: Any) -> None:
        """What the running statement of a scope has called returns this, which may have a name already."""
        numbers, tape = self.versions.numbers, self.tape
        known = []
        for leaf, item in (("", output),) if type(output) in self.ordinary else self._leaves_or_itself(output):
            number = numbers.get(tape.identity(item))
            if number is not None:
                known.append((leaf, number))
        if known:
            self.events += (scope.number, MENTIONED, tuple(known))

    def _leaves_or_itself(self, value: Any) -> Sequence[tuple[str, Any]]:
        return (("", value),) if self.tape.is_tensor(value) else self._leaves(value)

    # writes

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

    def sweep(self, scope: Scope, at: int) -> None:
        """Every live name whose memory has been written since gets a new version."""
        if not self.is_recording:
            return
        if self.disturbed():
            with self.tape.quiet():
                self.versions.sweep(scope, at)
        else:
            self.versions.sweep(scope, at)

    # what modules report

    def name_returned(self, path: str, output: Any) -> Any:
        """A module has returned, its own hooks included; ``output`` is what its caller gets."""
        now = self.repeats.now()
        if now is not self:
            return now.name_returned(path, output)
        if not self.is_recording:
            return output
        if not path:
            return self._result(output, of_module=True)
        if self.tap is not None:
            output = exchanged(output, self.tap, [])
        if self.repeats.again or not self.runs_once():
            self._note_transcripts()
        kind = ScopeKind.of(self.selection, path, "", "", ())
        self.events += (0, MODULE, (kind, self._returned(kind, output)))
        return output

    def _returned(self, kind: ScopeKind, output: Any) -> Code:
        wanted = kind.wanted
        if type(output) in self.ordinary and not self.disturbed() and wanted["return"]:
            return self.versions.number(output, kind, NO_SITE_AT)
        if isinstance(output, NUMBERS):
            if not wanted["return"]:
                return PASSED_OVER
            self.log.plain.append(output)
            return PLAIN
        found = self._leaves_or_itself(output)
        chosen = [(leaf, item) for leaf, item in found if wanted["return" + leaf]]
        if not chosen:
            return self._unselected(output, found)
        same = _same(chosen, self.mixed.pop(kind.path, ()))
        with self.tape.quiet():
            codes = self._codes(chosen, kind, NO_SITE_AT, same)
        return codes if found[0][0] else codes[0][1]

    def name_path(self, path: str, tensor: Any) -> Any:
        """A parameter of a model: its name is its path."""
        if type(tensor) in self.ordinary and not self.disturbed():
            self._name_path(path, tensor)
            return tensor
        with self.tape.quiet():
            if self.tap is not None:
                tensor = self.tap(tensor)
            self._name_path(path, tensor)
        return tensor

    def _name_path(self, path: str, tensor: Any) -> None:
        if self.selection.might_want(path):
            self.events += (0, PARAMETER, (path, self.versions.number(tensor, self.root, NO_SITE_AT)))

    def absent(self, path: str, status: GradStatus, why: Reason) -> None:
        """A module that was selected, and whose return value does not exist."""
        self._say(0, ABSENT, (path, status, why))

    # what the probe itself names

    def name_result(self, result: Any) -> Any:
        """What the probed function returned. Returns what takes its place."""
        return self._result(result, of_module=False) if self.is_recording else result

    def _result(self, result: Any, *, of_module: bool) -> Any:
        if self.tap is not None:
            result = exchanged(result, self.tap, [])
        code = self.code(self.root, "return", NO_SITE_AT, result)
        self.events += (0, RESULT, (of_module, code))
        return result

    def hold_output(self, tensor: Any, path: str | None, name: str = "return", site: Site | None = None) -> int:
        """The number of the value that is differentiated, which always has an entry.

        Without a path in what has this name it was computed from that. ``site`` is where the name was bound.
        """
        with self.tape.quiet():
            if self.tap is not None:
                tensor = self.tap(tensor)
            at = NO_SITE_AT if self.writes is not None else site or self.read().return_site
            return self._hold(OUTPUT, tensor, at, path, name, site)

    def hold_at(self, tensor: Any, site: Site, file: str) -> int:
        """The number of a tensor that stands in a line of a file without a name; what that line mentions is noted."""
        self.is_recording = self.has_more = True
        reader = self.read()
        with self.tape.quiet():
            number = self.versions.number(tensor, self.root, site)
        reader.held_at(number, site, file)
        return number

    def hold(self, tensor: Any, local: str, leaf: str) -> int:
        """The number of the value that a tensor is; it gets a local of the root where it has no name."""
        return self._hold(HELD, tensor, NO_SITE_AT, local, leaf)

    def _hold(self, word: int, tensor: Any, at: int | Site, *said: Any) -> int:
        known = self.versions.numbers.get(self.tape.identity(tensor))
        number = self.versions.number(tensor, self.root, at)
        self.events += (0, word, (*said, number, number == known))
        return number

    def hold_unnamed(self) -> None:
        """What is differentiated and was read under no name gets one, which the framework has for it."""
        if self.tape.unnamed is not None:
            self.has_more = True
            with self.tape.quiet():
                self.read().hold_unnamed(self.tape.unnamed)


def _same(chosen: Sequence[tuple[str, Any]], held: Sequence[tuple[str, Any]]) -> set[str]:
    """The leaves of a container at which the name held these very objects before."""
    return {leaf for (leaf, one), (before, other) in zip(chosen, held, strict=False) if leaf == before and one is other}


def _always() -> bool:
    return True


def _reads(function: Any, flagged: bool) -> Effect:
    """The effect of every call where tensors keep their contents."""
    return Effect.READS
