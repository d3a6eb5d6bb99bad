"""Reads a journal: each report goes through a ``Scope``, as those of every reporting function do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from backprobe.tracing.course import FAILED, OF_MODULE, HeldScope
from backprobe.tracing.log import CALLED, DONE, ENTER, MENTIONED, NO_SITE_AT, ScopeKind
from backprobe.tracing.scope import Scope


class Frame:
    """A scope that is open at the point up to which the journal was read."""

    __slots__ = ("called", "module", "returned", "returned_at", "scope")

    def __init__(self, scope: Scope, module: Any) -> None:
        self.scope, self.module = scope, module
        self.returned: Any = None
        self.returned_at: int | None = None  # the place of the return value in the journal
        self.called: list[str] = []  # paths of modules that its code has called and that run


class Reading:
    """The open scopes of a journal, and the data read from it since it was last settled."""

    def __init__(self, trace: Any) -> None:
        self.trace = trace
        self.frames: list[Frame] = []
        self.last: Frame | None = None  # the outermost scope, after it was left
        self.codes: list[tuple[int | None, Any]] = []  # places and codes of bound and returned values
        self.paths: dict[Any, str] = {}  # of the model's modules
        self.executed: set[str] = set()

    def sweep_first(self, journal: Sequence[Any]) -> None:
        """If the journal begins with a new statement, look first for writes by the one before it."""
        scope = self.frames[-1].scope if self.frames else None
        if scope is not None and scope.dirty and journal[0] >= 0:
            scope.dirty = False
            self.trace.sweep(scope, journal[0] - DONE if journal[0] >= DONE else journal[0])

    def read(self, journal: Sequence[Any], has_written: bool = False) -> None:
        """Pass the reports in the journal to the scopes.

        ``has_written`` says that tensors were written to, unobserved, by a statement that is not known. Those that do
        not get a name again are found when their scope fails, or in the end.
        """
        self.codes.clear()
        at, trace = 0, self.trace
        sweep = trace.sweep
        if has_written:
            trace.sweep = self._sweep_unplaced
        while at < len(journal):
            word = journal[at]
            if word >= DONE:
                self.frames[-1].scope.done(word - DONE, None)
                at += 1
            elif word >= 0:
                self._read_bound(word, journal[at + 1], at + 1)
                at += 2
            elif word == CALLED:
                trace.say((self.frames[-1].scope.number, CALLED, journal[at + 1]))
                at += 2
            elif word == OF_MODULE:
                self.frames[-1].called.append(journal[at + 1])
                at += 2
            elif word == MENTIONED:
                trace.mentioned(self.frames[-1].scope, journal[at + 1])
                at += 2
            elif word == ENTER:
                self._read_enter(journal[at + 1], journal[at + 2])
                at += 3
            else:
                if has_written and word == FAILED:
                    trace.sweep(self.frames[-1].scope)
                self._read_leave(word)
                at += 1
        if has_written and self.frames:
            trace.sweep(self.frames[-1].scope)
        trace.sweep = sweep

    def _sweep_unplaced(self, by: Scope, at: int = NO_SITE_AT) -> None:
        # Look for writes. The statement that is read has not made them: they are found much later.
        self.trace.versions.sweep(by, NO_SITE_AT)

    def _read_bound(self, site: int, value: Any, at: int) -> None:
        frame = self.frames[-1]
        frame.scope.bind(site, value)
        self.codes.append((at, self.trace.events[-1]))
        if frame.scope.locals[site] == "return":
            frame.returned, frame.returned_at = value, at

    def _read_enter(self, kind: ScopeKind, module: Any) -> None:
        trace = self.trace
        is_function = kind.path.startswith("/")
        scope = trace.entered(self.frames[-1].scope.number, kind) if is_function else trace.enter_kind(kind)
        self.frames.append(Frame(scope, module))

    def _read_leave(self, word: int) -> None:
        frame = self.frames.pop()
        frame.scope.exit()
        if not self.frames:
            self.last = frame
        elif frame.module is not None and word != FAILED:
            self.module_returned(frame.module, frame.returned, frame.returned_at)

    def module_returned(self, module: Any, output: Any, at: int | None = None) -> None:
        """A module has returned ``output`` to the innermost open scope."""
        self.name_returned(module, output)
        self.codes.append((at, self.trace.events[-1][1]))
        caller, path = self.frames[-1], self.paths[module]
        if path in caller.called:
            caller.called.remove(path)
            self.trace.mentioned(caller.scope, output)

    def name_returned(self, module: Any, output: Any) -> None:
        """A module has returned ``output``, and its return value gets a name."""
        path = self.paths[module]
        self.executed.add(path)
        self.trace.name_returned(path, output)

    def restore(self, held: Sequence[HeldScope], order: Sequence[int], modules: Mapping[str, Any]) -> None:
        """Open these scopes, as reading would have done."""
        trace, versions = self.trace, self.trace.versions
        old = {frame.scope.number: frame for frame in self.frames}
        for frame in self.frames:
            frame.scope.live.clear()
            frame.scope.stamps.clear()
            frame.scope.has_held = False
        self.frames = [old.get(one.number) or self._frame(one, modules) for one in held]
        for frame, one in zip(self.frames, held, strict=True):
            frame.called = [*one.called]
            frame.scope.several = dict(one.several)
            for key, number in one.live:
                frame.scope.live[key], frame.scope.stamps[key] = versions.tensors[number], versions.versions[number]
        versions.live[:] = [self.frames[at].scope.live for at in order]
        versions.stamps[:] = [self.frames[at].scope.stamps for at in order]
        for at in order:
            self.frames[at].scope.has_held = True
        trace.is_root_open = any(one.number == 0 for one in held)

    def _frame(self, held: HeldScope, modules: Mapping[str, Any]) -> Frame:
        trace, module = self.trace, None if held.module is None else modules[held.module]
        if held.number == 0:
            trace.root_is(held.kind)
            return Frame(trace.root, module)
        return Frame(trace.scope_type(trace, held.kind, held.number), module)

    def leave_last(self, kind: ScopeKind, module: Any, returned: Any) -> None:
        """The outermost scope was left. Record this as reading would have done."""
        trace = self.trace
        if not kind.path:
            trace.root_is(kind)
        self.last = Frame(trace.root if not kind.path else trace.scope_type(trace, kind), module)
        self.last.returned = returned
        trace.codes.left(self.last.scope, returned)

    def hide(self, written: Sequence[Any]) -> None:
        """These tensors were written to, unobserved, so the earlier values of their names are not known."""
        versions = self.trace.versions
        known = [versions.numbers.get(versions.identity(one)) for one in written]
        self.trace.journal.tape.hide([versions.captures[number] for number in known if number is not None])

    def release(self) -> None:
        """Release everything."""
        self.frames.clear()
        self.codes.clear()
        self.last, self.paths = None, {}
