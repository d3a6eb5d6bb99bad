"""Finds the names of values while a program runs, and exchanges the values to replace."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from backprobe.backends.protocol import Tape
from backprobe.record.patterns import Selection
from backprobe.tracing.codes import NUMBERS, Codes
from backprobe.tracing.plan import Plan
from backprobe.tracing.reader import Reader
from backprobe.tracing.replacing import Marks, Replacing
from backprobe.tracing.scope import Scope
from backprobe.tracing.values import ScopeNames, Slot
from backprobe.tracing.versions import Versions


class ReplacingProgram(Protocol):
    """The attributes and methods of a trace that this file needs."""

    tape: Tape
    selection: Selection
    plan: Plan
    versions: Versions
    codes: Codes
    is_recording: bool
    is_result_named: bool

    def record(self, on: bool) -> None: ...

    def read(self) -> Reader: ...

    def names_of(self, scope: Any) -> ScopeNames: ...


class ReplacedNames:
    """Finds the full name that a value is about to get, and exchanges the value for the requested one."""

    def __init__(self, trace: ReplacingProgram, replacing: Replacing) -> None:
        self.trace, self.replacing = trace, replacing

    def replaceable(self, name: str, value: Any) -> Sequence[tuple[str, Any]]:
        """Return the leaves of a value if one of them may be replaced; otherwise nothing. ``name`` has no counts."""
        found = () if isinstance(value, NUMBERS) else self.trace.codes.leaves_or_itself(value)
        found = found or [("", value)]
        return found if self.replacing.concerns(name, found) else ()

    def next_name(self, scope: Scope, local: str, own: str, found: Sequence[tuple[str, Any]]) -> str | None:
        """Return the full name that a local gets by this binding; None if the local already holds the same objects."""
        names = self.trace.names_of(scope)
        if self._holds(names.slots.get(local + own, ()), found):
            return None
        return f"{names.id.full}:{local}#{names.id.counts.get(local, 0)}"

    def _holds(self, held: Slot, found: Sequence[tuple[str, Any]]) -> bool:
        numbers, tape = self.trace.versions.numbers, self.trace.tape
        now = dict(held)
        known = [
            leaf in now and now[leaf].number is not None and now[leaf].number == numbers.get(tape.identity(item))
            for leaf, item in found
            if tape.is_tensor(item)
        ]
        return bool(known) and all(known)

    def exchange(self, name: str, full: str, value: Any, found: Sequence[tuple[str, Any]]) -> tuple[Any, Marks]:
        """Return the value with which the program continues. Nothing is recorded meanwhile, because functions that
        replace values are not part of the program.
        """
        was_recording = self.trace.is_recording
        self.trace.record(False)
        try:
            return self.replacing.exchange(name, full, value, found, self.trace.versions.numbers)
        finally:
            self.trace.record(was_recording)

    def went_on(self, full: str, value: Any) -> None:
        """Called after the program has continued with a value that may have been exchanged, and that is now bound to
        this full name.
        """
        self.replacing.went_on(full, self.trace.codes.leaves_or_itself(value))

    def parameter(self, path: str, tensor: Any) -> tuple[Any, Marks]:
        """Return the tensor with which the program continues instead of a parameter of a model."""
        found = self.replaceable(path, tensor)
        return self.exchange(path, path, tensor, found) if found else (tensor, ())

    def returned(self, path: str, output: Any) -> tuple[Any, Marks, str]:
        """Return the value with which the caller of a module continues. If something in it may be replaced, also return
        the full name of the module's return value; otherwise an empty text.
        """
        kind = self.trace.plan.modules[path]
        name = f"{kind.stripped}:return"
        found = self.replaceable(name, output)
        if not found:
            return output, (), ""
        reader = self.trace.read()
        finished = reader.finished.get(kind.path)
        scope = finished[-1].id.full if finished else f"{kind.path}#{reader.entered.get(kind.path, 0)}"
        full = f"{scope}:return#0"
        return *self.exchange(name, full, output, found), full

    def result(self, result: Any, root: Scope, *, of_module: bool) -> tuple[Any, Marks]:
        """Return the value with which the program continues after the model or function has returned.

        The return value of a function is exchanged here only if no statement has named it.
        """
        found = self.replaceable(":return", result)
        if not found or (not of_module and self.trace.is_result_named):
            return result, ()
        self.trace.is_result_named = of_module
        full: str | None = f":return#{self.trace.read().root.id.counts.get('return', 0)}"
        if self.trace.selection.in_function:  # the return statement may have named the value
            full = self.next_name(root, "return", "", found)
        return (result, ()) if full is None else self.exchange(":return", full, result, found)
