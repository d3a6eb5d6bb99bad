"""The scope of a program in which values are replaced: a bound value is exchanged before it is reported."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from backprobe.record.names import strip
from backprobe.tracing.log import REPLACED
from backprobe.tracing.replaced_names import ReplacedNames
from backprobe.tracing.scope import Recorder, Scope


class Replacer(Recorder, Protocol):
    """The object to which scopes report while values are replaced."""

    replaced: ReplacedNames | None
    """Finds the replacement for each name. None after the program has ended."""


class ReplacingScope(Scope):
    """A ``Scope`` whose program continues with replaced values."""

    recorder: Replacer

    def bind(self, at: int, value: Any) -> Any:
        return self._exchanged(at, value, "", lambda new: super(ReplacingScope, self).bind(at, new))

    def name(self, at: int, value: Any, own: str = "") -> Any:
        return self._exchanged(at, value, own, lambda new: super(ReplacingScope, self).name(at, new, own))

    def wrote(self, at: int, value: Any) -> Any:
        """Called after ``u += …``, which keeps the tensor object but makes a new version. A replacement gets the new
        version's name.
        """
        local, recorder, replaced = self.locals[at], self.recorder, self.recorder.replaced
        if replaced is None or not recorder.is_recording:
            return super().wrote(at, value)
        name = f"{self.kind.stripped}:{strip(local)}"
        found = replaced.replaceable(name, value)
        if not found or replaced.next_name(self, local, "", found) is not None:
            return super().wrote(at, value)
        full = replaced.next_name(self, local, "", ())
        assert full is not None
        self.written(value)
        new, marks = replaced.exchange(name, full, value, found)
        if marks:
            self.forget(local)  # otherwise the write would get this name
        self._settle(at)
        new = super().bind(at, new)
        replaced.went_on(full, new)
        if marks:
            self._say(REPLACED, marks)
        return new

    def _exchanged(self, at: int, value: Any, own: str, report: Callable[[Any], Any]) -> Any:
        local, recorder, replaced = self.locals[at], self.recorder, self.recorder.replaced
        if replaced is None or not recorder.is_recording or self._is_modules_return(local):
            return report(value)
        name = f"{self.kind.stripped}:{strip(local)}"
        found = replaced.replaceable(name, value)
        if not found:
            return report(value)
        if self.dirty:
            self._settle(at)
        full = replaced.next_name(self, local, own, found)
        new, marks = (value, ()) if full is None else replaced.exchange(name, full, value, found)
        new = report(new)
        if full is not None:
            replaced.went_on(full, new)
        if marks:
            self._say(REPLACED, marks)
        return new

    def _is_modules_return(self, local: str) -> bool:
        # Is this the return value of a module's forward? It is not replaced here. The value that the caller of the
        # module gets is replaced later, after the module's own hooks.
        return local == "return" and not self.recorder.selection.in_function and "/" not in self.kind.path[:1]
