"""One run of a probed program: forward, backward, and the recording; what every form of a program shares."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from backprobe.backends.discover import BACKENDS
from backprobe.backends.facts import Backward, Options, Ran
from backprobe.backends.protocol import Backend, Tape
from backprobe.backends.refusals import refuse_options
from backprobe.errors import BackprobeError, BadOutput, NothingMatched, NothingToDifferentiate
from backprobe.findings.phrasing import place
from backprobe.probe.error_notes import explain_unconnected, explained
from backprobe.probe.output import Output, choose
from backprobe.record.entries import Record
from backprobe.record.names import nearest, strip
from backprobe.record.nonfinite import Nonfinite
from backprobe.record.patterns import Pattern, selection
from backprobe.recording import Recording
from backprobe.source.followed_calls import PlainCallables
from backprobe.source.user_code import innermost, package
from backprobe.tracing.finiteness import judged
from backprobe.tracing.trace import Trace
from backprobe.tracing.transcribe import kept, transcribe
from backprobe.tracing.values import Value

T = TypeVar("T")
EVERYTHING = ("**:*", "**:*()")  # every name, and every operation without one


@dataclass(frozen=True)
class Request:
    """What is to be recorded, and how: the arguments of ``probe``."""

    target: Any
    select: str | Sequence[str] | None
    of: str | int | Callable[[Any], Any] | None
    wrt: frozenset[str] | None
    cotangent: Any
    options: Options
    backend: str | None
    session: Any = None


class Run:
    """One use of a probe. The forms differ in how the program is made to report."""

    in_function = True
    doing = "running"
    looked_into: str | tuple[str, ...] | None = EVERYTHING  # what ``nonfinite=True`` records where nothing is selected

    def __init__(self, probe: Request, backend: Backend) -> None:
        self.probe, self.backend = probe, backend
        chosen = probe.select if probe.select is None or isinstance(probe.select, str) else tuple(probe.select)
        if chosen is None and probe.options.nonfinite:
            chosen = self.looked_into
        self.selection = selection(chosen, self.in_function)
        self.tape = self.opened()
        self.calls = self.tape.calls or PlainCallables()
        self.unfit: Mapping[str, Nonfinite] = {}  # buffers that hold NaN or Inf before the program runs
        self.undo: list[Callable[[], None]] = []  # what gives the caller's containers back as they were
        file = self.file()
        self.trace = Trace(self.tape, self.selection, None if file is None else home(file))

    def opened(self) -> Tape:
        refuse_options(self.backend, self.probe.options)
        return self.backend.tape(self.probe.options)

    def starts_at(self) -> Any:
        """The function that the run begins with."""
        return self.probe.target

    def file(self) -> str | None:
        """The file that the run begins in: what is installed with it is followed as the user's own code is."""
        inner = innermost(self.starts_at())
        return None if inner is None else inner.__code__.co_filename

    def add_notes(self, error: BaseException) -> None:
        """Say in an error of the program's where the probe was, and what is known about it."""
        note = f"backprobe: raised while {self.doing} {self.subject()} under a probe"
        if self.trace.last is not None and self.trace.last[1].line:
            scope, site = self.trace.last
            where = place(scope.file, site.line)
            note += f"; the last name bound was {site.local or 'none'!r} ({where}: {site.text})"
        error.add_note(note)
        for known in (explained(self, error), self.explain_error(error)):
            if known:
                error.add_note(known)

    def noting(self, step: Callable[[], T]) -> T:
        """Take a step; an error of the program's gets its notes."""
        try:
            return step()
        except BackprobeError:
            raise
        except BaseException as error:
            self.add_notes(error)
            raise

    def hold_unnamed(self) -> None:
        """Where NaN and Inf are looked for, what has no name and is differentiated is judged as well."""
        if self.probe.options.nonfinite:
            self.trace.hold_unnamed()

    def judged(self, record: Record) -> Record:
        """The record, with what ``nonfinite=True`` asks for."""
        return (
            replace(judged(record, self.backend.arrays), buffers=self.unfit) if self.probe.options.nonfinite else record
        )

    def refuse_missed(self, names: Mapping[str, int]) -> None:
        """Raise NothingMatched where a pattern of the user's has matched nothing that the program has."""
        if self.probe.select is None:
            return
        missed = self.selection.unmatched([*names, *self.trace.naming.seen])
        if missed:
            self.refuse_unmatched(missed[0], names)

    def refuse_unmatched(self, pattern: Pattern, names: Mapping[str, int]) -> None:
        """A pattern that matched nothing is an error with the nearest names of every kind."""
        known = {strip(name) for name in (*names, *self.trace.naming.seen, *self.known_names())}
        # in the function form a bare ``u`` is the local ``:u``, elsewhere it is a module
        close = nearest(pattern.text, {name.removeprefix(":") if self.in_function else name for name in known})
        raise NothingMatched(
            f"the pattern {pattern.text!r} matches nothing in {self.subject()}",
            asked=self.spelled(pattern.text),
            found=f"{len(known)} names" + (f", the nearest: {', '.join(close)}" if close else ""),
            why=" ".join(map(str, self.trace.notes)),
            next=self.spelled(close[0]) if close else f"{self.spelled()}, for every name",
        )

    def subject(self) -> str:
        """What messages call that which is recorded."""
        return name_of(self.probe.target)

    def spelled(self, pattern: str | None = None) -> str:
        """How this probe is asked for, with a pattern to select by."""
        return f"bp.probe({name_of(self.probe.target)}" + (f", {pattern!r})" if pattern is not None else ")")

    def explain_error(self, error: BaseException) -> str | None:
        """What the form itself did that may be behind an error of the program."""
        return None

    def known_names(self) -> Sequence[str]:
        """ScopeNames that the program has whether or not it ran them, for suggestions."""
        return ()


class CalledRun(Run):
    """One call of a target: forward, and then backward from what it returned."""

    differentiated: Value
    kept: Sequence[Value] = ()

    def record(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Recording:
        """Run forward and backward; whatever happens, nothing is left behind."""
        try:
            inputs = self.inputs(args, kwargs)
            run = functools.partial(self.tape.run, self._program, inputs, self.probe.wrt, self.undo)
            return self._recording(*self.noting(run))
        finally:
            for put_back in reversed(self.undo):
                put_back()
            self.trace.release()
            self.tape.release()

    def _program(self, inputs: Mapping[str, Any]) -> Ran:
        """The program itself, up to the choice of what is differentiated."""
        result = self.returned(self.forward(inputs))
        self.doing = "choosing the output of"
        try:
            output = self.output(result)
        except (BadOutput, NothingToDifferentiate) as error:
            explain_unconnected(self, error)
            raise
        self.doing = "differentiating"
        self.differentiated = self.hold(output)
        self.hold_unnamed()
        self.trace.close()
        self.kept = kept(self.trace, [self.differentiated])
        captures = [value.capture for value in self.kept if value.capture is not None]
        return Ran(result, self.differentiated.tensor, output.cotangent, captures)

    def returned(self, result: Any) -> Any:
        """What the target returned has a name."""
        result = self.trace.name_result(result)
        if inspect.isgenerator(result) or inspect.iscoroutine(result):
            result.close()
            raise NothingToDifferentiate(
                f"{name_of(self.probe.target)} returns a {type(result).__name__}, which has computed nothing yet",
                asked=self.spelled(), next="probe a function that runs it to its end",
            )  # fmt: skip
        return result

    def _recording(self, result: Any, passed: Backward) -> Recording:
        record = self.judged(transcribe(self.trace, self.backend, self.kept, passed, [self.differentiated]))
        self.refuse_missed(record.names)
        return Recording(record, result)

    def hold(self, output: Output) -> Value:
        """The value that is differentiated, which always has an entry."""
        return self.trace.hold_output(output.tensor, output.path)

    def inputs(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Mapping[str, Any]:
        """What is to be made differentiable, by name."""
        return {}

    def forward(self, inputs: Mapping[str, Any]) -> Any:
        raise NotImplementedError

    def output(self, result: Any) -> Output:
        return choose(result, self.probe.of, self.probe.cotangent, self.tape)


def home(file: str) -> str | None:
    """The installed package that a program is part of, whose functions are followed as the user's own are.

    A framework itself is none: a model may be made of its modules alone.
    """
    installed = package(file)
    return None if installed in BACKENDS else installed


def name_of(target: Any) -> str:
    """What a target is called in messages."""
    return str(getattr(target, "__name__", None) or type(target).__name__)
