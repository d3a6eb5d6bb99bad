"""Experiments with a script that was explained: it runs again with a suspected line changed, to see the effect.

For each line named by a finding, the line's result gets the history of the values that the line reads (it is
*bridged*), and it is observed whether the parameters without a gradient get one. If so, the script runs once more with
other numbers read on that line (they are *moved*). If the loss does not change, the loss does not depend on the line,
and nothing is claimed. Then the script runs with the line's remedy written into it: see ``script_remedies``.
"""

from __future__ import annotations

import atexit
import linecache
import math
import os
import sys
import time
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import CodeType
from typing import TYPE_CHECKING, Any

from backprobe.backends.bridging import Bridges
from backprobe.backends.discover import BACKENDS, is_imported, load_backend
from backprobe.backends.heard_births import HeardBirth
from backprobe.backends.patching import replaced
from backprobe.backends.protocol import Backend
from backprobe.backends.side_effects import RUNNING, StoppedAtEffect, harmless
from backprobe.backends.silence import silent
from backprobe.experiments import not_tried
from backprobe.findings.known import Known
from backprobe.findings.phrasing import listed
from backprobe.findings.report import Finding, Report
from backprobe.probe.bridged_run import BridgedRun, BridgingPlan, Enough, Stop, writing_refused
from backprobe.probe.script_remedies import ScriptRemedies
from backprobe.record.brief import path as short_path
from backprobe.record.source import Source
from backprobe.source.bridged_code import Statement, at_line, with_hooks
from backprobe.source.edits import Edit, edited
from backprobe.source.exchanged import names_of
from backprobe.source.hooked_modules import Code, imported_anew
from backprobe.source.main_module import as_main, main_kept
from backprobe.source.user_code import package

if TYPE_CHECKING:
    from backprobe.backends.random_states import RandomState

MOST = 24  # the most runs without edits
MOST_BEHIND = 2  # the most further lines after a bridged line that cut off the gradient again
LONGEST = 30.0  # the longest original run in seconds for which experiments are made
SHORTEST = 30.0  # seconds that all experiments together may take, or twice the script's time if that is longer
MOST_ENDS = 8  # the most lines that are tried because a history ends there
ENDS = "history_ends"  # the code of the finding at a line where a history was observed to end
NO_LINE = Known.NO_CUT | Known.NOT_HOW
REGISTER = atexit.register
MOVES = (-1.5, 1.001)  # the second is used if the first leads to an error
NOT_TRIED = "what was found was not tried: run again, the script {effect}"
TOO_LONG = "what was found was not tried: the script took {seconds:.0f} s, and runs again only below {most:.0f} s"
TIME_OVER = "not all that was found was tried: the {seconds:.0f} s for that were over"


class Beginning:
    """The state of the process when a script began: its imported modules, and its random states."""

    def __init__(self) -> None:
        self.modules = {*sys.modules}
        self.known = [name for name in BACKENDS if is_imported(name)]
        self.states = [(write, read()) for read, write in random_states(self.known)]

    def again(self, backend: Backend, bridges: Bridges | None) -> None:
        """Restore the random states, so that the script gets the same random numbers again. If its framework was
        imported later, begin with the random states and modes that the framework has in a new process.
        """
        if backend.name not in self.known and bridges is not None:
            bridges.begin()
        for write, state in self.states:
            write(state)


def random_states(names: Collection[str]) -> Sequence[RandomState]:
    """Return the functions that read and write the random states of Python, NumPy and these frameworks."""
    from backprobe.backends.random_states import OF_PYTHON  # local import: it needs NumPy

    return [*OF_PYTHON, *(state for name in names for state in load_backend(name).state(None).random_states())]


@dataclass(frozen=True)
class HeardRun:
    """The losses of a run, the operations that made NaN or Inf, and how many there were after each backward pass."""

    losses: Sequence[float | None]
    births: Sequence[HeardBirth]
    counts: Sequence[int]


class ScriptExperiments:
    """Runs one script again, after it ended or was stopped.

    ``passes`` is how often the script had run backward. ``losses`` are the values from which it ran backward last, if
    known. ``seconds`` is the time that it took, without importing its framework.
    """

    def __init__(
        self,
        beginning: Beginning,
        backend: Backend,
        file: str,
        arguments: Sequence[str],
        spec: ModuleSpec | None,
        passes: int,
        losses: Sequence[float],
        seconds: float,
    ) -> None:
        self.beginning, self.backend, self.spec = beginning, backend, spec
        self.file, self.arguments, self.passes, self.losses = file, arguments, passes, losses
        self.seconds = seconds
        self.lasting = max(2 * self.seconds, SHORTEST)
        self.until = time.monotonic() + self.lasting
        self.statements: list[Statement] = []
        self.codes: dict[str, CodeType] = {}
        self.names: dict[str, Mapping[str, Any]] = {}  # the global names of its main module, by file
        self.left = MOST
        self.remedies = ScriptRemedies(self._run, self.names_of, backend.edits)

    def with_tried(self, report: Report) -> Report:
        """Return the report after experiments on its findings. A finding may get evidence, edits or another line, lose
        its remedy, or be dropped because another one says the same. A note may be added.
        """
        return self.safely(report, lambda report: any(map(_own_place, report)), self._tries)

    def _tries(self, report: Report) -> Iterator[Report]:
        found = [*report.findings]
        for at, one in enumerate(report.findings):
            found[at] = self._with_tried(one)
            yield replace(report, findings=tuple(found))
        found = [*{(one.kind, one.source, one.lost) if one.kind == ENDS else id(one): one for one in found}.values()]
        yield replace(report, findings=tuple(self.remedies.together(found)))

    def safely(
        self, report: Report, is_wanted: Callable[[Report], bool], tries: Callable[[Report], Iterator[Report]]
    ) -> Report:
        """Return the last report that ``tries`` yields, if ``is_wanted`` and the script may run again; otherwise the
        given report.

        A note says if a side effect ended the trials, if the time for them was over, or if the script took too long. So
        does one for most errors, but not for an interrupt or for files that cannot be read or compiled.
        """
        try:
            if not is_wanted(report) or not self.may_try():
                return report
            if self.seconds > LONGEST:
                return _noted(report, TOO_LONG.format(seconds=self.seconds, most=LONGEST))
            with self.as_before():
                for each in tries(report):
                    report = each
            is_over = time.monotonic() > self.until
            return _noted(report, TIME_OVER.format(seconds=self.lasting)) if is_over else report
        except StoppedAtEffect as stop:
            return _noted(report, NOT_TRIED.format(effect=stop.note.fields["effect"]))
        except (SyntaxError, OSError, KeyboardInterrupt):
            return report
        except Exception as error:  # noqa: BLE001  what is known stays known, whatever an experiment comes to
            return not_tried(report, error)

    def hearing(self, edits: Sequence[Edit] = (), passes: int | None = None) -> HeardRun | None:
        """Run the script with these edits. Returns the operations in this run that made NaN or Inf.

        The run ends after ``passes`` backward passes, by default after one pass more than the script made. None if the
        script cannot run again, or if its framework reports no operations.
        """
        if self.backend.hear_births is None:
            return None
        heard: list[HeardBirth] = []
        counts: list[int] = []
        most = self.passes + 1 if passes is None else passes
        within = self.backend.hear_births(heard.append)

        def is_over(losses: Sequence[float | None]) -> bool:
            counts.append(len(heard))
            return len(losses) >= most

        run = self._run(BridgingPlan(frozenset()), is_over, edits, within)
        return None if run is None else HeardRun(run.losses, heard, counts)

    def may_try(self) -> bool:
        """May the script run again, with bridges?"""
        return self.backend.bridges is not None and self.may_run()

    def may_run(self) -> bool:
        """May the script run again?"""
        return not RUNNING.name and not self.backend.state(None).effect()

    @contextmanager
    def as_before(self) -> Iterator[None]:
        """Return a context after which the random states, the folder, the environment variables, the module path and
        the main module that ran last are as before.
        """
        from backprobe.backends.random_states import put_back

        folder, environment, path = os.getcwd(), dict(os.environ), [*sys.path]
        with put_back(random_states([name for name in BACKENDS if is_imported(name)])), main_kept():
            try:
                yield
            finally:
                os.chdir(folder)
                sys.path[:] = path
                if dict(os.environ) != environment:
                    os.environ.clear()
                    os.environ.update(environment)

    def _with_tried(self, one: Finding) -> Finding:
        place = _own_place(one)
        if place is None:
            return one
        self.code(place[0])
        found = self._at_its_line(one, at_line(self.statements, *place))
        is_proven, is_sure = found.tried != one.tried, not one.known & NO_LINE
        if (is_proven and Known.NOT_HOW not in one.known) or (is_sure and not one.lost):
            return found
        ended = self._where_it_ends(one)
        return found if ended is None or _own_place(ended) == place else ended

    def _where_it_ends(self, one: Finding) -> Finding | None:
        # Return the finding at another line, at which a history ends: of the lines tried, the one whose bridge alone
        # brings the most gradients. If the finding's own line was certain, the bridge must bring all missing gradients.
        # None if there is no such line.
        as_it_is = self._run(BridgingPlan(frozenset(), is_followed=True), self._is_over)
        ends = [] if as_it_is is None else [*as_it_is.ends, *as_it_is.call_ends]
        found: Finding | None = None
        most = 0 if one.known & NO_LINE else len(one.lost) - 1
        for each in ends[:MOST_ENDS]:
            plan = BridgingPlan(frozenset([each]), one.lost or _named(one))
            run = self._bridged(plan)
            said = "" if run is None else _said(one, run, (), ())
            if run is None or not said or len(run.arrived) <= most or not self._depends(run, plan):
                continue
            moved = _moved_to(self.statements[each], one, said, self.backend.name)
            found, most = self.remedies.with_remedy(moved, run, ()), len(run.arrived)
            if most >= len(one.lost):
                break
        return found

    def _at_its_line(self, one: Finding, targets: Sequence[int]) -> Finding:
        if not targets:
            return one
        if Known.NOWHERE in one.known:  # a gradient over this line would reach nothing
            as_is = self._run(BridgingPlan(frozenset()), self._is_over)
            return one if as_is is None or not as_is.losses else self.remedies.with_result_kept(one, as_is)
        plan, behind = BridgingPlan(frozenset(targets), one.lost or _named(one), is_followed=True), frozenset[int]()
        run = self._bridged(plan)
        if run is not None and not run.arrived:
            run, plan, behind = self._further(run, plan)
        if run is None or not run.arrived or not self._depends(run, plan):
            return one
        others = [self.statements[at] for at in sorted(behind)]
        said = _said(one, run, [self.statements[at] for at in plan.targets] if plan.is_around else (), others)
        return self.remedies.with_remedy(replace(one, tried=(*one.tried, said)), run, others) if said else one

    def _further(self, first: BridgedRun, plan: BridgingPlan) -> tuple[BridgedRun | None, BridgingPlan, frozenset[int]]:
        # Make another run if a bridge on one line had no effect. It also bridges lines after this line, statements that
        # reach the line through a library, or all values that the line writes into. Returns the run, its plan, and the
        # further lines.
        behind = frozenset([*first.ends][:MOST_BEHIND])
        run, behind = self._with_behind(plan, behind) if behind else (None, behind)
        if run is not None:
            return run, plan, behind
        around = replace(plan, targets=frozenset(first.callers), is_around=True)
        plan = around if first.callers else replace(plan, is_wide=True)
        return self._bridged(plan), plan, frozenset()

    def _with_behind(self, plan: BridgingPlan, behind: frozenset[int]) -> tuple[BridgedRun | None, frozenset[int]]:
        # Return a run that also bridges these lines, if gradients then arrive. If one of the lines is enough, only that
        # line is bridged.
        run = self._bridged(replace(plan, targets=plan.targets | behind))
        if run is None or not run.arrived:
            return None, behind
        for each in sorted(behind) if len(behind) > 1 else ():
            smaller = self._bridged(replace(plan, targets=plan.targets | {each}))
            if smaller is not None and len(smaller.arrived) >= len(run.arrived):
                return smaller, frozenset([each])
        return run, behind

    def _bridged(self, plan: BridgingPlan) -> BridgedRun | None:
        # Return a run with bridges; None if it raises an error, has no loss, reaches none of the statements, or if all
        # of its losses differ from those of the script.
        run = self._run(plan, self._is_over)
        if run is None or not run.losses or not run.count:
            return None
        is_same = not self.losses or any(_is_close(mine, each) for mine in run.losses for each in self.losses)
        return run if is_same else None

    def _is_over(self, losses: Sequence[float | None]) -> bool:
        # Has a run made as many passes as the script had made when it was stopped, and does its last loss equal one of
        # the script's? A run that never comes to such a loss ends after ten times as many passes, and ten more.
        is_last = not self.losses or any(_is_close(losses[-1], each) for each in self.losses)
        return len(losses) >= self.passes and (is_last or len(losses) >= 10 * self.passes + 10)

    def _depends(self, bridged: BridgedRun, plan: BridgingPlan) -> bool:
        # Does a loss change if these statements read other numbers?
        passes = len(bridged.losses)
        for by in MOVES:
            moved = self._run(replace(plan, by=by, is_wide=False), lambda losses: len(losses) >= passes)
            if moved is not None:
                return _differ(moved, bridged)
        return self._depends_later(plan, passes)

    def _depends_later(self, plan: BridgingPlan, passes: int) -> bool:
        # Does a loss change if the parameters' numbers change? Changed parameters reach the statements in the next
        # iteration.
        def is_over(losses: Sequence[float | None]) -> bool:
            return len(losses) >= 2 * passes

        as_is = self._run(BridgingPlan(frozenset()), is_over)
        moved = self._run(replace(plan, by=MOVES[0], is_shift=True), is_over) if as_is is not None else None
        return as_is is not None and moved is not None and _differ(as_is, moved)

    def _run(
        self,
        plan: BridgingPlan,
        is_over: Stop,
        edits: Sequence[Edit] = (),
        within: AbstractContextManager[Any] | None = None,
    ) -> BridgedRun | None:
        # Run the script with a plan. Returns None if nothing can be concluded: because of an error, because no time or
        # no run is left, or because another program is running again.
        if not (self.left or edits) or time.monotonic() > self.until:
            return None
        assert self.backend.bridges is not None
        self.left -= not edits
        code = partial(self._edited, edits) if edits else self.code
        bridges = self.backend.bridges()
        is_tensor = self.backend.arrays.is_tensor
        run = BridgedRun(bridges, self.statements, plan, is_over, self.until, self._total, is_tensor)
        with self.anew(code, run.hooks, bridges) as is_free:
            if not is_free:
                return None
            with run.listening(), within or nullcontext():
                return run if self._ran(run, code) else None

    @contextmanager
    def anew(
        self, code: Code, names: Mapping[str, Any], bridges: Bridges | None, *, is_compiled: bool = False
    ) -> Iterator[bool]:
        """Within this context the script can run again as in a new process, with this code for its modules.

        Yields False if another program is already running again.
        """
        uncompiled = None if is_compiled else self.backend.uncompiled
        with ExitStack() as entered:
            if not entered.enter_context(silent()):
                yield False
                return
            entered.enter_context(warnings.catch_warnings())
            entered.enter_context(replaced([(atexit, "register", _not_registered)]))
            entered.enter_context(imported_anew(self.beginning.modules, code, names))
            entered.enter_context(writing_refused(() if bridges is None else bridges.writers))
            entered.enter_context(harmless(os.path.basename(self.file)))
            self.beginning.again(self.backend, bridges)
            # compiled functions are removed, because a new process would not have them
            entered.enter_context((uncompiled or nullcontext)())
            yield True

    def _ran(self, run: BridgedRun, code: Code) -> bool:
        # Did the script reach its end, or the point at which it should be stopped?
        try:
            with as_main(self.arguments, self.spec) as main:
                vars(main).update(run.hooks)
                self.names[str(main.__file__)] = vars(main)
                exec(code(str(main.__file__)), vars(main))
        except Enough:
            return time.monotonic() <= self.until
        except SystemExit as error:
            return not error.code
        except Exception:  # noqa: BLE001  whatever it is, the script has gone another way
            return False
        return True

    def _total(self, value: Any) -> float | None:
        # Return the sum of the magnitudes of the numbers in a tensor or array; None for anything else.
        if self.backend.arrays.is_tensor(value):
            value = self.backend.arrays.numbers(value)
        is_array = type(value).__module__ == "numpy" and hasattr(value, "dtype") and value.dtype.kind in "biufc"
        return float(abs(value).sum()) if is_array else None

    def code(self, file: str) -> CodeType:
        """Return the code of a file of the script, with hooks."""
        if file not in self.codes:
            self.codes[file] = with_hooks(Path(file).read_bytes(), file, self.statements)
        return self.codes[file]

    def _edited(self, edits: Sequence[Edit], file: str) -> CodeType:
        # Return the compiled code of a file with edits. Raises SyntaxError.
        own = [one for one in edits if os.path.abspath(one.file) == file]
        return with_hooks(edited(own[0].text, own), file, self.statements) if own else self.code(file)

    def names_of(self, file: str) -> Mapping[str, Any]:
        """Return the global names of a file of the script, with their values."""
        return self.names.get(file) or names_of(file)


def _noted(report: Report, note: str) -> Report:
    return replace(report, notes=(*report.notes, note))


def _own_place(one: Finding) -> tuple[str, int] | None:
    # Return the file and line of a finding, if it is a line of the program that a bridge can test. None for useless
    # gradients, because gradients over a bridge would prove nothing about them.
    if Known.GRADIENT_THERE in one.known:
        return None
    if one.source is None or package(one.source.file) is not None or not one.source.file.endswith(".py"):
        return None
    return os.path.abspath(one.source.file), one.source.line


def _moved_to(statement: Statement, one: Finding, tried: str, framework: str) -> Finding:
    # Return the finding at another line, at which a history was observed to end. Facts about the first line are left
    # out, because they do not hold there.
    from backprobe.explain.text import finding

    first, *below = [linecache.getline(statement.file, at) for at in range(statement.first, statement.last + 1)]
    source = Source(statement.file, statement.first, first.rstrip("\n"), below=tuple(map(str.rstrip, below)))
    made = finding(ENDS, one.name, source, framework)
    return replace(made, lost=one.lost, consequence=one.consequence, tried=(tried,))


def _named(one: Finding) -> tuple[str, ...]:
    # Return the texts of a finding that may be names of values.
    return tuple(dict.fromkeys(name.strip("'`") for name in (*one.chain, one.name, *one.fields.values())))


def _said(one: Finding, run: BridgedRun, instead: Collection[Statement], behind: Collection[Statement]) -> str:
    # Return a sentence about the gradients that arrive over bridges, as evidence for a finding. Empty if the run proves
    # nothing. Besides the finding's own line, or instead of it, other lines may have been bridged.
    names = run.names_arrived()
    is_known = bool(one.lost) and any(held is not None for held in run.resolved.values())
    count = len(names) if is_known else len(run.arrived)
    where, *more = (listed([short_path(each.file, each.first) for each in lines]) for lines in (instead, behind))
    where = " and ".join([where or "this line", *(each for each in more if each)])
    if not count or (one.lost and count > len(one.lost)):
        return ""
    what = "parameter" if one.lost else "tensor"
    if count == 1:
        whose = repr(names[0]) if len(names) == 1 else f"1 {what}"
        return f"with {where} bridged, the gradient of {whose} arrives"
    whole = f" of {len(one.lost)}" if count < len(one.lost) else ""
    return f"with {where} bridged, the gradients of {count}{whole} {what}s arrive"


def _not_registered(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Callable[..., Any]:
    # Used instead of ``atexit.register``. It leaves out the script's functions, which the first run has registered.
    # Those of libraries are registered: TensorFlow removes files that it wrote in this run.
    code = getattr(function, "__code__", None)
    if code is not None and package(code.co_filename) is not None:
        REGISTER(function, *args, **kwargs)
    return function


def _differ(one: BridgedRun, other: BridgedRun) -> bool:
    return not all(map(_is_close, one.losses, other.losses))


def _is_close(one: float | None, other: float | None) -> bool:
    if one is None or other is None:
        return False
    return math.isclose(one, other, rel_tol=1e-5, abs_tol=1e-12) or (math.isnan(one) and math.isnan(other))
