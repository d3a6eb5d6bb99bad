"""The trace of one recording: the log of its program, the captures in it, and the reader that names them.

While the program runs, the scopes of rewritten code report to a ``Trace``. It captures tensors (``Versions``, by the
backend's ``Tape``) and logs which tensor was bound where, but names nothing. The ``Reader`` gives names when the
program is over, or earlier on request. Nothing here knows a framework.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from itertools import compress
from typing import Any, TypeVar

from backprobe.backends import capabilities
from backprobe.backends.facts import Effect
from backprobe.backends.protocol import Tape
from backprobe.record.containers import CONTAINERS, by_key, exchanged
from backprobe.record.entries import GradStatus
from backprobe.record.names import quote
from backprobe.record.patterns import Selection
from backprobe.record.reasons import Note, Reason
from backprobe.source.copies import Copy
from backprobe.source.sites import Site
from backprobe.tracing import schema as schemas
from backprobe.tracing.codes import Codes
from backprobe.tracing.followed_calls import Following
from backprobe.tracing.log import (
    ABSENT,
    AGAIN,
    ENTER,
    HELD,
    LEAVE,
    MENTIONED,
    MODULE,
    NO_SITE_AT,
    OUTPUT,
    PARAMETER,
    REPLACED,
    RESULT,
    Code,
    Log,
    ScopeKind,
)
from backprobe.tracing.plan import Plan
from backprobe.tracing.reader import Reader
from backprobe.tracing.recompute import Repeats
from backprobe.tracing.replaced_names import ReplacedNames
from backprobe.tracing.replacing import Marks, Replacing
from backprobe.tracing.replacing_scope import ReplacingScope
from backprobe.tracing.schema import Schema, schema_of
from backprobe.tracing.scope import Scope
from backprobe.tracing.values import OF_FORWARD, ScopeNames, Value
from backprobe.tracing.versions import By, Versions

S = TypeVar("S", bound=Scope)


class Trace:
    """The trace of one recording: its log, its captures, the reader of the log, and notes on what was not observed."""

    def __init__(
        self,
        tape: Tape,
        selection: Selection,
        home: str | None = None,
        *,
        is_apart: bool = False,
        replacing: Replacing | None = None,
    ) -> None:
        self.replacing = replacing
        self.replaced = None if replacing is None else ReplacedNames(self, replacing)
        self.scope_type: type[Scope] = Scope if replacing is None else ReplacingScope
        self.tape, self.selection, self.home = tape, selection, home
        self.tap, self.writes = tape.tap, tape if isinstance(tape, capabilities.Writes) else None
        self.ordinary, self.disturbed = tape.ordinary, tape.disturbed
        self.plan = Plan.of(selection)
        self.runs_once, self.running_pass = _always, _no_pass
        if isinstance(tape, capabilities.Recompute):
            self.runs_once, self.running_pass = tape.runs_once, tape.running_pass
        self.effect = tape.effect if isinstance(tape, capabilities.Versions) else _reads
        self.operations = selection.asks_operations or self.tap is not None
        self.is_recording, self.takes_all = True, self.tap is None
        self.log = log = Log()
        self.events, self.say, self.plain = log.events, log.events.extend, log.plain
        self.versions = versions = Versions(tape, self.events, self._around, by_line=selection.in_function)
        self.codes = Codes(tape, self.versions, self.log.plain, self.plan.bare_types(type(tape)), self.events)
        self.code, self.look, self.bound, self.sweep = self.codes.of, self.codes.look, versions.bound, versions.sweep
        self.bare = self.codes.bare
        self.foreign, self.own, self.known_calls = self.plan.codes(type(tape), home)
        self.scopes = 1
        self.lent: list[Copy] = []
        self.reader: Reader | None = None  # created on demand, because most logs equal an earlier one
        self.notes: dict[Note, None] = {}
        self.repeats, self.following = Repeats(self), Following(self)
        self.root = self.scope_type(self, self.plan.kind("", "", "", ()))
        self.is_root_open = self.is_result_named = False
        self.has_more = replacing is not None  # does the reader's result depend on more than the log?
        if isinstance(tape, capabilities.Late) and not is_apart:
            tape.before_late = self._read_all

    def read(self) -> Reader:
        """Read the log, which names the values that were reported so far."""
        reader = self.reader = self.reader or Reader(self.tape, self.selection, self.log, self.versions)
        reader.read()
        return reader

    def _read_all(self) -> None:
        # Read this log, and the logs of the parts that are being recomputed.
        for trace in (self, *(repeat for repeat, _ in self.repeats.again.values())):
            trace.read()

    def schema(self, outputs: Collection[int]) -> Schema:
        """Return the schema of this log. ``outputs`` are the numbers of the values that are differentiated."""
        known = None
        if self.is_repeatable and (self.reader is None or not self.reader.at):
            known = schemas.find(self.plan, self.events, outputs)
        if known is None or schemas.compare is not None:
            made = schema_of(self.read(), self.selection, list(self.events), outputs)
            if known is not None and schemas.compare is not None:
                schemas.compare(known, made)
            elif self.is_repeatable and not self.is_recording:
                schemas.keep(self.plan, made)
            return made
        self._decide(known)
        return known

    @property
    def is_repeatable(self) -> bool:
        """Does the reader's result depend on the log alone?"""
        return self.writes is not None and not self.log.transcripts and not self.has_more

    def _decide(self, schema: Schema) -> None:
        # Find out why captures without a history have none.
        if self.writes is not None and self.writes.undecided:
            captures = self.versions.captures
            are_undecided = map(self.writes.undecided.__contains__, map(captures.__getitem__, schema.around))
            for number, (reads, unrecorded) in [*compress(schema.around.items(), are_undecided)]:
                self.writes.decide(captures[number], ([*map(captures.__getitem__, reads)], unrecorded))

    def schema_so_far(self, numbers: Collection[int], outputs: Sequence[Value] = ()) -> Schema:
        """Return the schema of a program that may still run. The outputs have these numbers; ``outputs`` are further
        ones.
        """
        return schema_of(self.read(), self.selection, list(self.events), numbers, outputs)

    def captures(self, schema: Schema) -> list[Any]:
        """Return the captures that belong to the entries of a schema."""
        return [*map(self.versions.captures.__getitem__, schema.numbers)]

    def _around(self, by: By, at: int | Site) -> Any:
        return self.read().around(by, at)

    # Methods that open scopes.

    def open_root(self, file: str, sites: Sequence[Site]) -> Scope:
        """Called when the outermost code of the program begins to run. Returns its scope."""
        root, kind = self.root, self.plan.kind("", "", file, sites)
        root.kind, root.sites, root.locals, root.wants = kind, kind.sites, kind.locals, kind.wants
        self.versions.leave(root)
        self.is_root_open = True
        self._say(0, ENTER, kind)
        return root

    def use_root(self, make: Callable[[Trace, ScopeKind], S]) -> S:
        """Replace the root scope by one of another class."""
        self.root = root = make(self, self.root.kind)
        return root

    def enter(self, caller: Scope, name: str, file: str, sites: Sequence[Site]) -> Scope:
        return self.entered(caller.number, self.kind_called(caller, name, file, sites))

    def kind_called(self, caller: Scope, name: str, file: str, sites: Sequence[Site]) -> ScopeKind:
        return self.plan.kind(f"/{quote(name)}", caller.kind.stripped, file, sites)

    def enter_module(self, path: str, file: str = "", sites: Sequence[Site] = ()) -> Scope:
        return self.enter_kind(self.plan.kind(path, "", file, sites))

    def enter_kind(self, kind: ScopeKind) -> Scope:
        """Called when a module's forward is entered. ``kind`` is the kind of its scope."""
        now = self if self.running_pass() < 0 and not self.repeats.again else self.repeats.now()
        if now is not self:
            return now.enter_kind(kind)
        return self.entered(0, kind) if kind.path else self.open_root(kind.file, kind.sites)

    def entered(self, caller: int, kind: ScopeKind) -> Scope:
        number = 0
        if self.is_recording:
            number, self.scopes = self.scopes, self.scopes + 1
            if self.repeats.again or not self.runs_once():
                self._note_transcripts()
            self.events += (caller, ENTER, kind)
        return self.scope_type(self, kind, number)

    def _note_transcripts(self) -> None:
        transcripts = self.repeats.transcripts()
        if transcripts:
            self.log.transcripts[len(self.events)] = transcripts

    def caller_again(self, kind: ScopeKind, names: ScopeNames) -> Scope:
        """Return the scope that called the recomputed part, for the trace of a recomputation."""
        self._say(0, AGAIN, names)
        number, self.scopes = self.scopes, self.scopes + 1
        return self.scope_type(self, kind, number)

    def names_of(self, scope: Scope) -> ScopeNames:
        """Return the current names of a scope."""
        return self.read().scopes[scope.number]

    def apart(self, is_recording: bool) -> Trace:
        """Return another trace of the same program, for values that already have names."""
        trace = Trace(self.tape, self.selection, self.home, is_apart=True)
        trace.repeats = self.repeats
        trace.record(is_recording)
        return trace

    def forget(self, scope: Scope, keys: Sequence[str]) -> None:
        """Forget these names of a scope."""
        self.versions.forget(scope, *keys)
        if scope.held:
            self.codes.let_go(scope, *keys)

    def leave(self, scope: Scope) -> None:
        if self.is_recording:
            if scope is self.root:
                self.is_root_open = False
            self.versions.leave(scope)
            if scope.held:
                self.codes.let_go(scope, *scope.held)
            if scope.mixed and "return" in scope.mixed and not scope.kind.path.startswith("/"):
                self.codes.mixed[scope.kind.path] = scope.mixed["return"]
            scope.mixed = {"return": scope.mixed["return"]} if "return" in scope.mixed else {}
            self.say((scope.number, LEAVE, None))

    def record(self, on: bool) -> None:
        """Start recording the program's reports, or stop it."""
        self.is_recording, self.takes_all = on, on and self.tap is None

    def close(self) -> None:
        """Stop recording for good."""
        self.is_recording = self.takes_all = False  # inline, because this runs in each training step

    def release(self) -> None:
        """Release all values, and break cycles that would keep them until the next garbage collection."""
        self.close()
        for copy in self.lent:
            copy.give_back()
        self.lent.clear()
        if self.repeats.trace is self:
            self.repeats.release()
        if self.reader is not None:
            self.reader.release()
        self.versions.release()
        self.codes.mixed.clear()
        self.codes.inside.clear()
        self.codes.holders.clear()
        self.log.plain.clear()
        self.log.transcripts.clear()
        self.replaced = None
        del self.root, self.repeats, self.following

    def note(self, code: str, **fields: str) -> None:
        """Add a note that something could not be observed."""
        if self.replacing is not None and code == "compiled_not_followed":
            self.replacing.refuse_compiled(fields["name"])
        self.notes[Note(code, fields)] = None

    def _say(self, scope: int, word: int, said: Any) -> None:
        if self.is_recording:
            self.events += (scope, word, said)

    def mentioned(self, scope: Scope, output: Any) -> None:
        """Called when a module, which the running statement of a scope called, returns ``output``. Only tensors in it
        that have been captured are reported.
        """
        numbers, tape = self.versions.numbers, self.tape
        if type(output) in self.ordinary:
            number = numbers.get(tape.identity(output))
            if number is not None:
                self.events += (scope.number, MENTIONED, (("", number),))
            return
        known = []
        for leaf, item in self.codes.leaves_or_itself(output):
            number = numbers.get(tape.identity(item))
            if number is not None:
                known.append((leaf, number))
        if known:
            self.events += (scope.number, MENTIONED, tuple(known))

    # Methods for writes in place.

    def call_writer(self, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Call a function that may write to some of its arguments, with reports before and after the writes."""
        targets = self.targets(function, args, kwargs)
        for tensor in targets:
            self.writing(tensor)
        result = function(*args, **kwargs)
        for tensor in targets:
            self.written(tensor)
        return result

    def targets(self, function: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> list[Any]:
        return [] if self.writes is None else self.writes.targets(function, tuple(args), kwargs)

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

    # Methods for reports about modules.

    def name_returned(self, path: str, output: Any) -> Any:
        """Called when the module with this path has returned and its hooks have run. ``output`` is the value that the
        caller gets.
        """
        if self.running_pass() >= 0 or self.repeats.again:
            now = self.repeats.now()
            if now is not self:
                return now.name_returned(path, output)
        if not self.takes_all or self.replaced is not None or not path:
            return self._name_returned(path, output)
        if self.repeats.again or not self.runs_once():
            self._note_transcripts()
        kind = self.plan.modules[path]
        if type(output) in self.ordinary and kind.wants_return and not self.disturbed():
            code: Code = self.versions.number(output, kind, NO_SITE_AT)
        else:
            code = self.codes.returned(kind, output)
        self.say((0, MODULE, (kind, code)))
        return output

    def _name_returned(self, path: str, output: Any) -> Any:
        # Called by ``name_returned``. The output may be replaced, or may be that of the model itself.
        if not self.is_recording:
            return output
        if not path:
            return self._result(output, of_module=True)
        marks: Marks = ()
        full = ""
        if self.replaced is not None:
            output, marks, full = self.replaced.returned(path, output)
        if self.tap is not None:
            output = exchanged(output, self.tap, [])
        if self.replaced is not None and full:
            self.replaced.went_on(full, output)
        if self.repeats.again or not self.runs_once():
            self._note_transcripts()
        kind = self.plan.modules[path]
        self.say((0, MODULE, (kind, self.codes.returned(kind, output))))
        if marks:
            self._say(0, REPLACED, marks)
        return output

    def name_path(self, path: str, tensor: Any) -> Any:
        """Name a parameter of a model by its path, if it is selected. Returns the tensor with which the program
        continues.
        """
        marks: Marks = ()
        if self.replaced is not None:
            tensor, marks = self.replaced.parameter(path, tensor)
        if type(tensor) in self.ordinary and not self.disturbed():
            self._name_path(path, tensor)
        else:
            with self.tape.quiet():
                if self.tap is not None:
                    tensor = self.tap(tensor)
                self._name_path(path, tensor)
        if self.replaced is not None:
            self.replaced.went_on(path, tensor)
        if marks:
            self._say(0, REPLACED, marks)
        return tensor

    def name_paths(self, paths: Sequence[str], tensors: Sequence[Any]) -> Sequence[Any]:
        """Name several parameters of a model by their paths, at the beginning of a run."""
        is_usual = self.takes_all and self.replaced is None and self.ordinary.issuperset(map(type, tensors))
        if not is_usual or self.disturbed() or self.writes is None or not self.versions.add_all(self.writes, tensors):
            return [*map(self.name_path, paths, tensors)]
        numbers = [*map(self.versions.numbers.__getitem__, map(self.tape.identity, tensors))]
        known = self.plan.parameters
        if known is None or known[:2] != (paths, numbers):  # nearly always false after the first run
            events = [one for path, at in zip(paths, numbers, strict=True) for one in (0, PARAMETER, (path, at))]
            self.plan.parameters = known = paths, numbers, events
        self.say(known[2])
        return tensors

    def _name_path(self, path: str, tensor: Any) -> None:
        if self.selection.might_want(path):
            self.events += (0, PARAMETER, (path, self.versions.number(tensor, self.root, NO_SITE_AT)))

    def absent(self, path: str, status: GradStatus, why: Reason) -> None:
        """Add an entry for a selected module whose return value does not exist."""
        self._say(0, ABSENT, (path, status, why, "return"))

    # Methods for names that the probe itself gives.

    def name_result(self, result: Any) -> Any:
        """Name the probed function's return value. Returns the value with which the program continues."""
        return self._result(result, of_module=False) if self.is_recording else result

    def _result(self, result: Any, *, of_module: bool) -> Any:
        marks: Marks = ()
        if self.replaced is not None:
            result, marks = self.replaced.result(result, self.root, of_module=of_module)
        if self.tap is not None:
            result = exchanged(result, self.tap, [])
        is_open = type(result) in self.ordinary or issubclass(type(result), CONTAINERS)
        held = by_key(result) if of_module and not is_open else result
        code = self.code(self.root, "return", NO_SITE_AT, held)
        self.events += (0, RESULT, (of_module, code, self.root.kind.wanted[OF_FORWARD]))
        if marks:
            self._say(0, REPLACED, marks)
        return result

    def hold_output(self, tensor: Any, path: str | None, name: str = "return", site: Site | None = None) -> int:
        """Return the number of the value that is differentiated. This value always gets an entry.

        ``path`` is its place in the value called ``name``; None if it was computed from that value. ``site`` is the
        site at which the name was bound.
        """
        with self.tape.quiet():
            if self.tap is not None:
                tensor = self.tap(tensor)
            at = NO_SITE_AT if self.writes is not None else site or self.read().return_site
            return self._hold(OUTPUT, tensor, at, path, name, site)

    def hold_at(self, tensor: Any, site: Site, file: str) -> int:
        """Return the number of a tensor that is used without a name in a line of a file. The values that the line
        mentions are stored.
        """
        self.record(True)
        self.has_more = True
        reader = self.read()
        with self.tape.quiet():
            number = self.versions.number(tensor, self.root, site)
        reader.held_at(number, site, file)
        return number

    def hold(self, tensor: Any, local: str, leaf: str) -> int:
        """Return the number of a tensor's value. If the value has no name, this local of the root becomes its name."""
        return self._hold(HELD, tensor, NO_SITE_AT, local, leaf)

    def _hold(self, word: int, tensor: Any, at: int | Site, *said: Any) -> int:
        known = self.versions.numbers.get(self.tape.identity(tensor))
        number = self.versions.number(tensor, self.root, at)
        self.events += (0, word, (*said, number, number == known))
        return number

    def hold_unnamed(self) -> None:
        """Give names to differentiated values that the program read without a name. The names are the
        framework's own.
        """
        if self.tape.unnamed is not None:
            self.has_more = True
            with self.tape.quiet():
                self.read().hold_unnamed(self.tape.unnamed)


def _always() -> bool:
    return True


def _no_pass() -> int:
    return -1


def _reads(function: Any, flagged: bool) -> Effect:
    # Return the effect of a call in a framework whose tensors never change.
    return Effect.READS
