"""Runs a whole script as ``python script.py`` would, and reports on the first iteration with a finding, if any."""

from __future__ import annotations

import ast
import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import FrameType
from typing import Any

from backprobe.backends.capabilities import Differentiator
from backprobe.backends.dialects import DIALECTS, dialect_of
from backprobe.backends.discover import runs_on
from backprobe.backends.protocol import Backend
from backprobe.backends.useless import UselessGradients
from backprobe.backends.user_lines import Place, outer_place
from backprobe.errors import BackprobeError
from backprobe.explain import explain
from backprobe.findings.known import Known
from backprobe.findings.phrasing import listed, plural
from backprobe.findings.report import Report
from backprobe.probe.elsewhere import Elsewhere
from backprobe.probe.request import Request
from backprobe.probe.script_experiments import Beginning, ScriptExperiments
from backprobe.probe.script_gradients import ScriptGradients
from backprobe.probe.training_loop import LoopPart, Stopped, TrainingLoop
from backprobe.record.brief import place
from backprobe.record.entries import Record
from backprobe.record.nonfinite import BEFORE as HELD_BEFORE
from backprobe.record.training import ModuleRan, Training, Untrained
from backprobe.recording import Recording
from backprobe.recording.block import BlockRecording

STOPPED = "this is iteration {} of those that {}; the script was stopped after it"
ENDED = "all {} iterations of the script that {} were looked at, and this is the last"
RUN_BACKWARD, TAKE_GRADIENTS = "run backward()", "take gradients"
LATER = ", and later ones were not looked at: {} looks at up to ten"
USUAL = 2  # the usual number of iterations: the second also shows effects of the first
CLEAN = "no NaN or Inf comes to an output or a gradient: {} and {} were checked, in {}"
CLEAN_GRADIENTS = "no NaN or Inf comes to a gradient, nor to what it is of: {} were checked"
BEFORE = "earlier, in an iteration without {}: {}{}"
BACKWARD, A_GRADIENT = "backward()", "a gradient"
NOT_RUN = "backward_not_run"
NOTHING_RAN = "{}: there is no gradient to explain"
OWN = " in the script's own thread and process"
STARTED = "the script started {}: what they compute is not looked at"
NO_BACKWARD = "no backward() ran"
NO_GRADIENT = "the script took no gradient"
IN_GRAPH = "the script builds a graph for a session, which was not followed"
GRADIENT = "this is gradient {} of those that the script takes; it was stopped there"
MOST = 4  # the most findings to keep from parts without backward
AGAIN = 8  # the most iterations to wait for modules that were not called, or for gradients that did not come yet
CALLED_LATER = "modules that were not called in an earlier iteration were called in a later one"
USED_LATER = "parameters that got no gradient in an earlier iteration got one in a later one"
UNUSED = "none of these parameters got a gradient in any of {} iterations"
NEVER = "no module of these was called in any of {} iterations"
HAD_EARLIER = "these got a gradient in an earlier iteration, and none in this one: {}"
UNUSED_NOW = (ModuleRan.PARTLY, ModuleRan.OWN, ModuleRan.NOT_CALLED, ModuleRan.NEVER_READ)


def imported(tree: ast.Module) -> set[str]:
    """Return the names of the packages that a script imports."""
    nodes = [*ast.walk(tree)]
    named = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    named += [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
    return {name.partition(".")[0] for name in named}


def frameworks_of(file: str, asked: str | None) -> Callable[[], Sequence[str]]:
    """Return a function that returns the frameworks to observe: the requested one, or all. The first ones are those
    that the script imports, itself or through a library that computes with them.
    """
    if asked is not None:
        return lambda: [asked]
    try:
        own = imported(ast.parse(Path(file).read_bytes()))
    except (SyntaxError, ValueError):
        own = set()

    libraries = own.intersection(one for dialect in DIALECTS.values() for one in dialect.libraries)

    def ordered() -> Sequence[str]:
        known = {library: runs_on(library) for library in libraries}

        def is_own(name: str) -> bool:
            by_library = any(known[one] in (None, name) for one in libraries.intersection(DIALECTS[name].libraries))
            return name in own or name in known.values() or by_library

        return sorted(DIALECTS, key=lambda name: not is_own(name))

    return ordered


class ScriptBlock(LoopPart):
    """One of the blocks in which a script is recorded. The script's code does not contain the block."""

    has_own_options = True
    useless: UselessGradients | None = None

    def enter(self) -> BlockRecording:
        self.tape.useless = self.useless
        self.installed.enter_context((self.backend.uncompiled or nullcontext)())  # the tape asks for it as it begins
        return super().enter()

    @contextmanager
    def watching(self) -> Iterator[None]:
        if isinstance(self.tape, Differentiator):
            self.tape.counts, self.tape.heard = True, self._heard
        with super().watching():
            yield

    def _heard(self, targets: Sequence[Any], gradients: Any) -> None:
        self.passed(sys._getframe(1))

    def subject(self) -> str:
        return "the script"


class Script:
    """One run of a script.

    With ``nonfinite=True`` the first iteration with a finding is explained. Otherwise the first ``steps`` iterations
    that run ``backward()`` are examined (more if a later one may change the answer), and the first one with a finding
    or an error is explained. Then the script is stopped, because later iterations usually show only the same problem or
    its consequences.
    """

    def __init__(
        self,
        probe: Request,
        file: str,
        arguments: Sequence[str],
        judge: Callable[[Recording], Report] = explain,
        steps: int = 1,
        spec: ModuleSpec | None = None,
        more: str = "",
        most: float = math.inf,
    ) -> None:
        self.judge, self.steps, self.more = judge, steps, more
        self.most = most  # after this many iterations, the search ends
        self.spec = spec  # the spec of a module that runs like ``python -m``
        self.probe, self.file, self.arguments = probe, file, [file, *arguments]
        self.answer: Report | None = None
        self.has_exited = False  # did the script itself exit, with the status 0?
        self.before: dict[str, None] = {}  # sentences about findings in parts without backward, in order
        # The report on a part without backward: the first with findings, or else the last.
        self.last: Report | None = None
        self.uncalled: set[str] | None = None  # parameters without a gradient so far, if they may get one later
        # True if a module with some of these parameters was not called. False if modules ran, but with other tensors as
        # parameters.
        self.is_uncalled = False
        self.before_this: Training | None = None  # the census of the last iteration
        self.iterations = self.values = self.gradients = 0
        self.does = RUN_BACKWARD  # what the script does in each iteration, for messages
        self.useless: UselessGradients | None = None
        self.backend: Backend | None = None  # the backend of the script's framework
        self.began = 0.0
        self.elsewhere = Elsewhere()
        self.passes, self.losses = 0, list[float]()  # the number of backward passes, and the last losses
        self.stopped_at: Place | None = None  # the line of the script at which it was stopped
        from backprobe.explain.nonfinite.earlier_iterations import EarlierIterations  # which imports NumPy

        self.earlier = EarlierIterations()

    def run(self) -> None:
        """Run the script to its end, or until enough is known. Raises its errors, including SystemExit with its
        status.
        """
        loop = TrainingLoop(
            self.probe,
            os.path.abspath(self.file),
            self._over,
            self._block,
            frameworks_of(self.file, self.probe.backend),
        )
        gradients, self.elsewhere = ScriptGradients(self.probe, self._taken, self.judge), loop.elsewhere
        loop.without_blocks = gradients.listen
        self.began = time.monotonic()
        try:
            try:
                loop.run(self.arguments, self.spec)
            finally:
                gradients.stop()
                if self.useless is not None:
                    self.useless.stop()
                self.gradients += gradients.count
                self.values += gradients.count
                self.backend = self.backend or gradients.backend
        except Stopped as stop:
            self.stopped_at = outer_place(stop.__traceback__)
            if self.answer is None:
                return
            stopped = STOPPED.format(self.iterations, self.does) if self.iterations else GRADIENT.format(gradients.last)
            # without a finding, the command in ``more``, which looks at more iterations, could show one
            may_show_more = self.more and self.answer.ok and self.iterations >= self.steps
            stopped += LATER.format(self.more) if may_show_more else ""
            self.answer = replace(self.answer, notes=(stopped, *self.answer.notes))
        except SystemExit as error:
            if error.code:
                raise
            self.has_exited = True
            self._say_all()
        else:
            self._say_all()

    def _block(self, probe: Request, backend: Backend, frame: FrameType) -> ScriptBlock:
        block = ScriptBlock(probe, backend, frame)
        if self.backend is None:
            # Measure the time from here: the framework is imported by now, and another run need not import it again.
            self.began = time.monotonic()
        self.backend = backend
        if self.useless is None and backend.useless is not None and not probe.options.nonfinite:
            self.useless = backend.useless()
            self.useless.listen()
        block.useless = self.useless
        return block

    def _say_all(self) -> None:
        # Called if the script ran to its end. Adds a note on the number of iterations, if several were requested and
        # several ran.
        if self.answer is not None and self.steps > 1 < self.iterations:
            self.answer = replace(self.answer, notes=(ENDED.format(self.iterations, self.does), *self.answer.notes))

    def _over(self, block: LoopPart, error: BaseException | None) -> bool:
        # Called when a part of the script is over. Returns whether enough is known.
        record = block.recording.record
        self.passes += len(record.outputs)
        self.losses = _numbers(record, block.backend) or self.losses
        if not record.entries:
            return False
        self.iterations += max(block.iterations, bool(record.outputs))
        is_beside = bool(record.outputs) and not block.summed
        self.does = RUN_BACKWARD if dialect_of(record.framework).runs_backward and not is_beside else TAKE_GRADIENTS
        if self.probe.options.nonfinite and self._is_clean(record):
            self.earlier.keep_losses(record)
            return self.iterations >= self.most
        lacking, had = self._without_earlier(self._still_lacking(record))
        report = self._judged(block.recording if lacking is record else Recording(lacking))
        report = replace(report, notes=(*report.notes, HAD_EARLIER.format(listed(had, 12)))) if had else report
        if self.probe.options.nonfinite:
            report = self.earlier.explained(report, record)  # values that earlier iterations have left in variables
            if report.ok:
                self.earlier.keep(record)
        if record.outputs or error is not None:
            is_enough = self._explained(report) and error is None and not self._is_open(report, record)
            return is_enough and not (report.ok and self.iterations < self.steps)
        self._explained_before(report, record)
        return False

    def _judged(self, recording: Recording) -> Report:
        # Return the report. If there are several outputs and the judge takes only one, return the first report with a
        # finding, or the last report if none has one.
        if self.judge is explain or not recording.record.is_of_several:
            return self.judge(recording)
        reports = [self.judge(recording.of(key)) for key in recording.output_keys]
        return next((one for one in reports if not one.ok), reports[-1])

    def _still_lacking(self, record: Record) -> Record:
        # Return the record. It lists only those untrained parameters that had no gradient in any iteration so far.
        training = record.training
        if training is None or self.uncalled is None:
            return record
        kept = tuple(one for one in training.untrained if one.name in self.uncalled)
        return replace(record, training=replace(training, untrained=kept))

    def _without_earlier(self, record: Record) -> tuple[Record, list[str]]:
        # Return the record without the untrained parameters that this iteration does not use, but that got a gradient
        # in the iteration before, and their names. In truncated backpropagation only the first part of a sequence
        # reaches a learned first state.
        before, training = self.before_this, record.training
        self.before_this = training if record.outputs else before
        if before is None or training is None or before.count != training.count:
            return record, []
        lacked = {one.name for one in before.untrained}
        had = [one for one in training.untrained if one.name not in lacked and _is_unused_now(one)]
        if not had:
            return record, []
        kept = tuple([one for one in training.untrained if one not in had])
        return replace(record, training=replace(training, untrained=kept)), [one.name for one in had]

    def _is_open(self, report: Report, record: Record) -> bool:
        # Could a later iteration show something new? For example, one of several expert modules may be called only
        # later.
        assert self.answer is not None
        lacking = () if record.training is None else record.training.untrained
        again = self.uncalled is not None
        if any(Known.MOMENTARY in one.known for one in report) and self.iterations < self.steps:
            return True
        if self.useless is not None and self.useless.is_undecided and self.iterations == self.steps:
            return True
        is_uncalled = bool(report.of_kind("not_executed")) and any(one.ran is ModuleRan.NOT_CALLED for one in lacking)
        if again and report.ok:
            self.answer = replace(
                self.answer, notes=(*self.answer.notes, CALLED_LATER if self.is_uncalled else USED_LATER)
            )
            return False
        if not is_uncalled and not any(one.ran is ModuleRan.PARTLY for one in lacking):
            return False
        self.is_uncalled = is_uncalled
        self.uncalled = {one.name for one in lacking if self.uncalled is None or one.name in self.uncalled}
        if self.iterations >= AGAIN:
            never = NEVER if is_uncalled else UNUSED
            self.answer = replace(self.answer, notes=(*self.answer.notes, never.format(self.iterations)))
        return self.iterations < AGAIN

    def _taken(self, report: Report, is_instead: bool) -> bool:
        # Called when the gradient of a function was explained. Returns whether enough is known.
        is_open = self.answer is None or any(Known.MOMENTARY in one.known for one in self.answer)
        if is_open or not report.ok or is_instead:
            self.answer = report
        return not report.ok

    def _explained(self, report: Report) -> bool:
        # Use a report as the answer. With ``nonfinite=True``, only a report with findings is used.
        if self.probe.options.nonfinite and report.ok:
            return False
        self.answer = replace(report, notes=(*report.notes, *self.before))
        return True

    def _explained_before(self, report: Report, record: Record) -> None:
        # Store a report on a part without backward. It may remain the only report, or explain a later one.
        if self.last is None or self.last.ok:
            is_graph = any(note.code == "graph_not_followed" for note in record.notes)
            none_taken = IN_GRAPH if is_graph else NO_GRADIENT
            runs_backward = dialect_of(record.framework).runs_backward
            none_ran = "" if record.none_given else NO_BACKWARD if runs_backward else none_taken
            is_untrained = record.training is not None and bool(record.training.untrained)
            is_all = bool(none_ran) and not is_untrained and all(one.kind == NOT_RUN for one in report.findings)
            started = self.elsewhere.started
            none_ran += OWN * bool(none_ran and started)
            beside = [STARTED.format(" and ".join(started))] * bool(none_ran and started)
            notes = (*report.notes, *([none_ran] if none_ran else ()), *beside)
            nothing = Report(NOTHING_RAN.format(none_ran), (), tuple(beside), complete=False)
            self.last = nothing if is_all else replace(report, notes=notes)
        without = BACKWARD if dialect_of(record.framework).runs_backward else A_GRADIENT
        for one in report.of_kind("born")[: MOST - len(self.before)]:
            where = "" if one.source is None else f" ({place(one.source.file, one.source.line)})"
            self.before[BEFORE.format(without, one.headline, where)] = None

    def _is_clean(self, record: Record) -> bool:
        # Is every value, gradient and written parameter finite? Those that were checked are counted.
        judged = [entry.finiteness for entry in record.entries if entry.finiteness is not None]
        counts = [count for one in judged for count in (one.value, one.grad) if count is not None]
        self.values += sum(one.value is not None for one in judged)
        self.gradients += sum(one.grad is not None for one in judged)
        written = any(one.gradient != HELD_BEFORE for one in record.updates)
        return all(count.is_finite for count in counts) and not (written or any(one.made for one in judged))

    def with_nonfinite(self) -> Script:
        """Return a new run of this script with ``nonfinite=True``, for at most as many iterations as this run had."""
        probe = replace(self.probe, options=replace(self.probe.options, nonfinite=True))
        return Script(probe, self.file, self.arguments[1:], self.judge, spec=self.spec, most=self.iterations)

    def experiments(self, beginning: Beginning) -> ScriptExperiments | None:
        """Return the object that runs the script again for experiments; None if its framework is not known."""
        if self.backend is None:
            return None
        return ScriptExperiments(
            beginning,
            self.backend,
            self.file,
            self.arguments,
            self.spec,
            self.passes,
            self.losses,
            time.monotonic() - self.began,
        )

    def report(self) -> Report | None:
        """Return the report, even if the script raised an error; None if nothing was recorded."""
        if self.answer is not None:
            return self.answer
        if self.probe.options.nonfinite and (self.iterations or self.last is None) and self.values:
            if not self.iterations:
                return Report(CLEAN_GRADIENTS.format(plural(self.gradients, "gradient")))
            heading = CLEAN.format(
                plural(self.values, "value"), plural(self.gradients, "gradient"), plural(self.iterations, "iteration")
            )
            return Report(heading, (), tuple(self.before))
        return self.last


def _is_unused_now(one: Untrained) -> bool:
    # Has this iteration computed nothing from the parameter? If its module is unknown, ``calls`` is ignored, because it
    # has the line of the optimizer.
    return not one.carriers and (one.ran is ModuleRan.UNKNOWN or (one.ran in UNUSED_NOW and not one.calls))


def _numbers(record: Record, backend: Backend) -> list[float]:
    # Return the sum of the numbers of each output whose value still exists.
    found = []
    for entry in [record.entries[at] for at in record.outputs]:
        with suppress(BackprobeError):
            numbers = backend.arrays.numbers(entry.value)
            found += [] if numbers is None else [float(numbers.sum().real)]
    return found
