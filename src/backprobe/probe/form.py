"""The base class of all forms: tape and trace, notes on errors of the program, and patterns without a match."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from backprobe.backends.discover import BACKENDS
from backprobe.backends.protocol import Backend, Tape
from backprobe.backends.refusals import refuse_options
from backprobe.errors import BackprobeError
from backprobe.probe.error_notes import explained
from backprobe.probe.inner_output import names_in
from backprobe.probe.pasted import as_in_model
from backprobe.probe.replacements import replacing_of, texts_replaced
from backprobe.probe.request import Request, name_of, typed_as
from backprobe.record.brief import place
from backprobe.record.entries import Record
from backprobe.record.names import strip
from backprobe.record.nonfinite import Nonfinite
from backprobe.record.patterns import refuse_unmatched, selection
from backprobe.source.user_code import innermost, package
from backprobe.tracing.finiteness import judged
from backprobe.tracing.module_code import NO_CODE
from backprobe.tracing.schema import Schema
from backprobe.tracing.trace import Trace
from backprobe.tracing.transcribe import FinishedRun

T = TypeVar("T")
# Matches texts that may be names from a script's report. The test is cheap, because forms are made in each step.
OF_A_SCRIPT = re.compile(r"!?(/|[^\W\d]\w*\.)")
EVERYTHING = ("**:*", "**:*()")  # every name, and every unnamed operation


class Form:
    """One use of a probe. The forms differ in how the program is made to report."""

    in_function = True
    doing = "running"
    # the patterns that ``nonfinite=True`` records if nothing is selected
    looked_into: str | tuple[str, ...] | None = EVERYTHING

    def __init__(self, probe: Request, backend: Backend) -> None:
        self.probe, self.backend = probe, backend
        chosen = probe.select if probe.select is None or isinstance(probe.select, str) else tuple(probe.select)
        if chosen is None and probe.options.nonfinite:
            chosen = self.looked_into
        for text in (chosen,) if isinstance(chosen, str) else chosen or ():
            if not self.in_function and isinstance(text, str) and OF_A_SCRIPT.match(text):
                chosen = self.pasted(chosen)
                break
        self.selection = selection(chosen, self.in_function, self.inner_names(), texts_replaced(probe))
        self.tape = self.opened()
        self.replacing = replacing_of(probe, self.tape, backend, in_function=self.in_function)
        self.unfit: Mapping[str, Nonfinite] = {}  # buffers with NaN or Inf before the program ran
        self.undo: list[Callable[[], None]] = []  # functions that restore the caller's containers
        file = self.file()
        self.trace = Trace(self.tape, self.selection, None if file is None else home(file), replacing=self.replacing)

    def pasted(self, chosen: Any) -> Any:
        """The selection, with names pasted from a script's report converted to names of the model."""
        models = self.backend.models
        target = self.probe.target
        return chosen if models is None else as_in_model(chosen, target, models.call(target, (), {}))

    def inner_names(self) -> tuple[str, ...]:
        """Names of values that may be the output although the program does not return them."""
        return tuple([name for one in self.probe.asked for name in names_in(one.of)])

    def opened(self) -> Tape:
        refuse_options(self.backend, self.probe.options)
        return self.backend.tape(self.probe.options)

    def starts_at(self) -> Any:
        """The function that the run starts with."""
        return self.probe.target

    def file(self) -> str | None:
        """The file that the run starts in. Other code of the same installed package is followed like the user's own."""
        inner = innermost(self.starts_at())
        return None if inner is None else inner.__code__.co_filename

    def add_notes(self, error: BaseException) -> str:
        """Add notes to an error of the program: the place that the recording had reached, and known facts about the
        error.

        Returns the note about the cause, if any.
        """
        note = f"backprobe: raised while {self.doing} {self.subject()} under a probe"
        last = self.trace.read().last
        if last is not None and last[1].line:
            scope, site = last
            where = place(scope.file, site.line)
            note += f"; the last name bound was {site.local or 'none'!r} ({where}: {site.text})"
        error.add_note(note)
        known = [said for said in (self.what_is_known(error), self.explain_error(error)) if said]
        for said in known:
            error.add_note(said)
        return "\n".join(said.removeprefix("backprobe: ") for said in known)

    def what_is_known(self, error: BaseException) -> str | None:
        """The note about an error of the framework, if there is one."""
        return explained(self, error)

    def noting(self, step: Callable[[], T]) -> T:
        """Call ``step``; if the program raises an error there, notes are added to it."""
        try:
            return step()
        except BackprobeError:
            raise
        except BaseException as error:
            self.add_notes(error)
            raise

    code = NO_CODE
    """Code of the program to be read for explanations when a gradient is missing."""

    def hold_unnamed(self) -> None:
        """With ``nonfinite``: capture differentiated values without a name, so that they are checked as well."""
        if self.probe.options.nonfinite:
            self.trace.hold_unnamed()

    def judged(self, run: FinishedRun) -> FinishedRun | Record:
        """The finished run; with ``nonfinite=True``, its record with counts of NaN and Inf."""
        if not self.probe.options.nonfinite:
            return run
        return run.record(lambda record: replace(judged(record, self.backend.arrays), buffers=self.unfit))

    def refuse_missed(self, schema: Schema) -> None:
        """Raise NothingMatched if a selected pattern has matched nothing in the program."""
        if self.probe.select is None:
            return
        missed = schema.unmatched(self.selection)
        if missed:
            why = " ".join(map(str, self.trace.notes | dict.fromkeys(schema.notes)))
            refuse_unmatched(missed[0].text, self.names(schema), self.subject(), self.spelled, why)

    def names(self, schema: Schema) -> list[str]:
        """The names of the program without counts, selected or not."""
        known = {strip(name) for name in (*schema.names.positions, *schema.seen, *self.known_names())}
        # in the function form a bare ``u`` is the local ``:u``; in other forms it is a module
        return [name.removeprefix(":") if self.in_function else name for name in known]

    def subject(self) -> str:
        """The recorded program, as messages call it."""
        return name_of(self.probe.target)

    def spelled(self, pattern: str | None = None) -> str:
        """The call of this probe as text, selecting by ``pattern`` if given."""
        return f"bp.probe({typed_as(self.probe.target)}" + (f", {pattern!r})" if pattern is not None else ")")

    def explain_error(self, error: BaseException) -> str | None:
        """A note if the form itself may have caused an error of the program."""
        return None

    def source_names(self) -> Sequence[str]:
        """Names that the program's source binds, including those that a run does not reach."""
        return ()

    def known_names(self) -> Sequence[str]:
        """All names of the program, run or not, for suggestions."""
        return ()


def home(file: str) -> str | None:
    """The installed package that a program belongs to. Functions of the package are followed like the user's own.

    None for a framework itself: a model may consist of its modules alone.
    """
    installed = package(file)
    return None if installed in BACKENDS else installed
