"""The base class of all forms of a probe. It has the tape and the trace, adds notes to errors, and refuses patterns
without a match.
"""

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
# Matches texts that may be names from a script's report. The test must be fast, because a form is created in each step.
OF_A_SCRIPT = re.compile(r"!?(/|[^\W\d]\w*\.)")
# all names of functions and modules, and all unnamed operations; a model's parameters also need "**"
EVERYTHING = ("**:*", "**:*()")


class Form:
    """One run under a probe. Its subclasses, the forms, differ in how they make the program report."""

    in_function = True
    doing = "running"
    # the patterns that ``nonfinite=True`` records if nothing is selected
    looked_into: str | tuple[str, ...] | None = EVERYTHING

    def __init__(self, probe: Request, backend: Backend) -> None:
        self.probe, self.backend = probe, backend
        chosen = probe.chosen
        if chosen is None and probe.options.nonfinite:
            chosen = self.looked_into
        for text in (chosen,) if isinstance(chosen, str) else chosen or ():
            if not self.in_function and isinstance(text, str) and OF_A_SCRIPT.match(text):
                chosen = self.pasted(chosen)
                break
        self.selection = selection(chosen, self.in_function, self.inner_names(), texts_replaced(probe))
        self.tape = self.opened()
        self.replacing = replacing_of(probe, self.tape, backend, in_function=self.in_function)
        self.unfit: Mapping[str, Nonfinite] = {}  # buffers that held NaN or Inf before the program ran
        self.undo: list[Callable[[], None]] = []  # functions that restore the caller's containers
        file = self.file()
        self.trace = Trace(self.tape, self.selection, None if file is None else home(file), replacing=self.replacing)

    def pasted(self, chosen: Any) -> Any:
        """Return the selection. Names that were pasted from a script's report are converted to names of the model."""
        models = self.backend.models
        target = self.probe.target
        return chosen if models is None else as_in_model(chosen, target, models.call(target, (), {}))

    def inner_names(self) -> tuple[str, ...]:
        """Return the names of values that may be the output although the program does not return them."""
        return tuple([name for one in self.probe.asked for name in names_in(one.of)])

    def opened(self) -> Tape:
        refuse_options(self.backend, self.probe.options)
        return self.backend.tape(self.probe.options)

    def release(self) -> None:
        """Restore the caller's containers, and remove everything that the run has installed in the program."""
        for put_back in reversed(self.undo):
            put_back()
        self.trace.release()
        self.tape.release()
        if self.replacing is not None:
            self.replacing.failed = None  # its traceback holds frames of the program, which hold this run

    def starts_at(self) -> Any:
        """Return the function with which the run starts."""
        return self.probe.target

    def file(self) -> str | None:
        """Return the file in which the run starts; None if no Python function is known."""
        inner = innermost(self.starts_at())
        return None if inner is None else inner.__code__.co_filename

    def add_notes(self, error: BaseException) -> str:
        """Add notes to an error of the program: how far the recording had come, and known facts about the error.

        Returns the known facts as text; empty if there are none.
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
        """Return a note with what is known about an error of the program; None if nothing is known."""
        return explained(self, error)

    def noting(self, step: Callable[[], T]) -> T:
        """Call ``step`` and return its result. If the program raises an error there, notes are added to the error."""
        try:
            return step()
        except BackprobeError:
            raise
        except BaseException as error:
            self.add_notes(error)
            raise

    code = NO_CODE
    """The code of a model, which is read to explain missing gradients."""

    def hold_unnamed(self) -> None:
        """With ``nonfinite``, capture differentiated values that have no name, so that they are checked as well."""
        if self.probe.options.nonfinite:
            self.trace.hold_unnamed()

    def judged(self, run: FinishedRun) -> FinishedRun | Record:
        """Return the finished run. With ``nonfinite=True``, return its record with counts of NaN and Inf instead."""
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
        """Return the names of the program without counts, including those that were not selected."""
        known = {strip(name) for name in (*schema.names.positions, *schema.seen, *self.known_names())}
        # in a function, a bare ``u`` means ``:u``; otherwise it is a module
        return [name.removeprefix(":") if self.in_function else name for name in known]

    def subject(self) -> str:
        """Return the words by which messages refer to the recorded program."""
        return name_of(self.probe.target)

    def spelled(self, pattern: str | None = None) -> str:
        """Return the call of this probe as text. ``pattern`` is written as its selection, if given."""
        return f"bp.probe({typed_as(self.probe.target)}" + (f", {pattern!r})" if pattern is not None else ")")

    def explain_error(self, error: BaseException) -> str | None:
        """Return a note if the form itself may have caused an error of the program; otherwise None."""
        return None

    def source_names(self) -> Sequence[str]:
        """Return the names that the program's source binds, even in code that the run does not reach. A block knows
        none.
        """
        return ()

    def known_names(self) -> Sequence[str]:
        """Return further names of the program, even of code that did not run. They are used for suggestions."""
        return ()


def home(file: str) -> str | None:
    """Return the installed package to which a file belongs. Its functions are followed like the user's own.

    None for a file of the user, and for a package of a framework: the target may be a model that consists of the
    framework's modules alone.
    """
    installed = package(file)
    return None if installed in BACKENDS else installed
