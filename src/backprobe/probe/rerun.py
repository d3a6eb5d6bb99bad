"""A probe's target with its arguments, so that the program can run again as long as the recording lives."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from threading import get_ident
from typing import TYPE_CHECKING, Any

from backprobe.backends.discover import is_model
from backprobe.backends.facts import Options
from backprobe.backends.heard_births import HeardBirth
from backprobe.backends.protocol import Backend
from backprobe.backends.replay import Replay
from backprobe.backends.side_effects import RUNNING, StoppedAtEffect, harmless
from backprobe.backends.silence import silent
from backprobe.backends.taken import UsedUp
from backprobe.backends.tensors import Tensors
from backprobe.backends.useless import FLAT, TIMES_ZERO, USELESS, RepeatedCall
from backprobe.backends.zero_gradients import all_zero
from backprobe.errors import BackprobeError, Overwritten
from backprobe.probe.block import OPEN
from backprobe.probe.form import EVERYTHING
from backprobe.probe.output import choose
from backprobe.probe.request import Request, name_of
from backprobe.record.brief import kind
from backprobe.record.containers import leaves, refilled
from backprobe.record.entries import Entry, GradStatus, Record
from backprobe.record.limits import Limit
from backprobe.record.reasons import Note
from backprobe.recording import Recording

if TYPE_CHECKING:  # importing explanations takes a third of the time of all imports
    from backprobe.findings.report import Report
    from backprobe.tracing.bridging import NamedBridges


@dataclass(frozen=True)
class Rerun:
    """Everything needed to run a recorded program again. Copies, saved recordings and pickled recordings do not have
    it.
    """

    request: Request
    backend: Backend
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    recorded: Callable[[Request], Record]
    """Records another run of the target with this request."""

    seconds: float
    """How long the recorded run took, in seconds."""

    versions: Sequence[int | None]
    """For each input tensor, the framework's count of writes when the recorded run ended."""

    modes: Callable[[], AbstractContextManager[object]] = nullcontext
    """Returns a context that restores the framework's modes of the recorded run, such as autocast."""

    is_looked_into: bool = False
    """Did the recorded run already include the search for useless gradients?"""

    taken: dict[int, Any] = field(default_factory=dict)
    """By identity: iterators, queues and files from which a second run has taken items. They make a third run
    impossible.
    """

    @property
    def is_of_model(self) -> bool:
        """Is the target a model? Then its parameters count as trained."""
        return is_model(self.backend, self.request.target)

    @property
    def is_replaced(self) -> bool:
        """Did the recorded run use ``replace`` or ``replace_grad``?"""
        return bool(self.request.replace or self.request.replace_grad)

    def observed(self, record: Record, limit: Limit) -> Record:
        """Return the record with notes on useless gradients, if the program may run again to look for them.

        The program may not run again if it took longer than the limit, if too few runs are left, inside another program
        that is running again, or if an open block in this thread would record the run. If its arguments or leaves were
        written to since, it does not run again either, and a note says so.
        """
        if self.is_looked_into or any(note.code in USELESS for note in record.notes):
            return record
        try:
            notes = self._observed(record, limit) if self._may_run(limit, 2) else []
        except Exception as error:  # noqa: BLE001  what was recorded is known, whatever comes of this
            notes = [self._not_again(f"ended with {type(error).__name__}")]
        return replace(record, notes=(*record.notes, *notes))

    def _observed(self, record: Record, limit: Limit) -> Sequence[Note]:
        from backprobe.explain.useless import all_zero_in

        limit.runs -= 2
        notes = [Note("written_before_again")] if self._is_written(record) else self.useless()
        notes = [note for note in notes if self._holds(note, record)]
        zero = all_zero_in(record, self.backend.arrays) if self.is_of_model else []
        return [*notes, *([all_zero(zero)] if zero else ())]

    def _may_run(self, limit: Limit, runs: int = 1) -> bool:
        # May the program run again so often? It may not while a block would record it, inside a program that is already
        # running again, if it takes too long, or if too few runs are left.
        is_free = get_ident() not in OPEN.values() and not RUNNING.name
        return is_free and self.seconds < limit.seconds and limit.runs >= runs

    def _is_written(self, record: Record) -> bool:
        # Were the program's arguments, or leaves such as parameters, written to since?
        given = [value for one in (*self.args, *self.kwargs.values()) for _, value in leaves(one)]
        return [*self.versions] != versions(self.backend, given) or any(map(_is_overwritten, record.entries))

    def _holds(self, note: Note, record: Record) -> bool:
        # Was a gradient that is 0 in this run also 0 in the recording? This run may have taken another branch.
        if note.code not in (FLAT, TIMES_ZERO):
            return True
        from backprobe.explain.all_zero import is_zero

        same = [one for one in record.entries if one.name == note.fields["first"] and one.status is GradStatus.OK]
        return all(is_zero(self.backend.arrays, one.held_grad) for one in same)

    def experimented(self, record: Record, report: Report, asked: int | None, limit: Limit) -> Report:
        """Return the report with the results of experiments on its cuts, if the program may run again for them."""
        from backprobe.experiments import Runs, experimented, not_tried
        from backprobe.explain.useless import NOT_AGAIN

        try:
            is_again = not any(note.code in NOT_AGAIN for note in record.notes)
            if not is_again or not self._may_try(limit) or self._is_written(record):
                return report
            runs = Runs(partial(self._bridged, self._replay()), self.backend.arrays, limit)
            return experimented(record, report, asked, runs)
        except StoppedAtEffect:
            return report
        except Exception as error:  # noqa: BLE001  what is known stays known, whatever an experiment comes to
            return not_tried(report, error)

    def _may_try(self, limit: Limit) -> bool:
        # Experiments are only made for recordings of a single output, without replaced values.
        return self._may_run(limit) and len(self.request.asked) == 1 and not self.is_replaced

    def _bridged(self, replay: Replay, bridges: NamedBridges, wide: bool) -> Record | None:
        # Return the record of a run in which these values are bridged; None if the run raises an error.
        select = ((*EVERYTHING, "**") if self.is_of_model else EVERYTHING) if wide else self.request.select
        try:
            with self._running(replay):
                return self.recorded(replace(self.request, replace=bridges, select=select))
        except (Exception, SystemExit, StoppedAtEffect):  # noqa: BLE001  the program has run: what it raises now is no answer
            return None

    def derivative(self, record: Record, limit: Limit, of: str, at: tuple[int, ...], wrt: str) -> Any:
        """Ask the framework, in another run, for the gradient of one element of a value with respect to another value.

        None if the program may not run again, or if it raises an error.
        """
        try:
            if not self._may_try(limit) or self._is_written(record):
                return None
            limit.runs -= 1
            element = f"{of}[{', '.join(map(str, at))}]" if at else of
            made = self.again(
                nullcontext(),
                replace(
                    self.request,
                    of=element,
                    cotangent=None,
                    select=(wrt,),
                    options=Options(),
                ),
            )
            return self.backend.arrays.numbers(made[wrt].grad_or_none)
        except (Exception, SystemExit, StoppedAtEffect):  # noqa: BLE001  the program has run: an error now is no answer
            return None

    def tried(self, report: Report, name: Any, record: Record, limit: Limit) -> Report:
        """Return the report after its remedies were tried, if the program may run again with edited text."""
        from backprobe.experiments import not_tried

        try:
            if name is None and any(entry.finiteness is not None for entry in record.entries):
                return self._cured(report, record, limit)
            return self._remedied(report, name, record, limit)
        except Exception as error:  # noqa: BLE001  what is known stays known, whatever a trial comes to
            return not_tried(report, error)

    def _remedied(self, report: Report, name: Any, record: Record, limit: Limit) -> Report:
        # Return the report on missing gradients, with edits that restore the gradients, if there are any.
        from backprobe.explain import explain
        from backprobe.remedies import tried, wanted_of

        def explains(other: Any) -> Report:
            return explain(other, name if name is not None and name in other else None, experiments=False)

        wanted = wanted_of(record, name)
        lacking = [one for one in report.findings if one.source is not None]
        if not wanted or not lacking or not self.backend.edits:
            return report
        trial = partial(tried, report, wanted, self.backend, self.again, explains)
        return self._with_trial(report, record, limit, trial)

    def _cured(self, report: Report, record: Record, limit: Limit) -> Report:
        # Return the report on NaN and Inf, with what a second look at the operations shows, and with the effects of
        # remedies that were written into the program.
        from backprobe.explain import explain
        from backprobe.explain.nonfinite.second_look import lacking, lacking_inside  # local import: these need NumPy
        from backprobe.remedies.numerics import is_curable, tried_on_births

        in_forward = lacking(report)
        in_backward = limit.runs > 2 and lacking_inside(report)  # a trial of a remedy needs two more runs
        if (in_forward or in_backward) and self.backend.hear_births is not None:
            look = partial(self._looked_at_again, report, limit, not in_forward)
            report = self._with_trial(report, record, limit, look, runs=1)
        if not any(map(is_curable, report)) or not self.backend.edits:
            return report
        explains = partial(explain, experiments=False)
        trial = partial(tried_on_births, report, record.framework, self.backend, self.again, explains)
        return self._with_trial(report, record, limit, trial)

    def _looked_at_again(self, report: Report, limit: Limit, in_backward: bool, runs: int) -> Report:
        # Return the report with numbers for operations inside called functions that made NaN or Inf. The operations are
        # observed in a second run. If the program may not run again, return the report unchanged.
        from backprobe.explain.nonfinite.second_look import with_heard

        assert self.backend.hear_births is not None
        limit.runs -= runs
        heard: list[HeardBirth] = []
        try:
            replay = self._replay()
        except StoppedAtEffect:
            return report
        hearing = self.backend.hear_births(heard.append)
        if in_backward:
            self.again(hearing)
            return with_heard(report, heard)
        args, kwargs = self._as_tensors()
        with self._running(replay), (self.backend.uncompiled or nullcontext)(), hearing:
            self.request.target(*args, **kwargs)
        return with_heard(report, heard)

    def _as_tensors(self) -> tuple[Sequence[Any], Mapping[str, Any]]:
        # Return the arguments. NumPy arrays and numbers are converted to tensors, as in the recorded run.
        if self.backend.trials is None or is_model(self.backend, self.request.target):
            return self.args, self.kwargs  # a model gets its arguments unchanged
        given = self.backend.trials().given
        every = [leaf for value in (*self.args, *self.kwargs.values()) for _, leaf in leaves(value)]
        if all(given(leaf) is leaf for leaf in every):
            return self.args, self.kwargs
        return refilled(self.args, given), refilled(self.kwargs, given)

    def _with_trial(
        self, report: Report, record: Record, limit: Limit, trial: Callable[[int], Report], runs: int = 2
    ) -> Report:
        # Return the report after a trial. If ``runs`` is 1, the trial gets one run. Else it may use all remaining runs,
        # of which one is a run of the unchanged program. If the program may not run again, or too few runs are left,
        # the report stays unchanged. A note is added if the arguments were written to, or if running again fails.
        from backprobe.remedies import untried

        try:
            if record.is_of_several or limit.runs < runs or not self._may_try(limit):
                return report
            if self._is_written(record):
                return untried(report, "what it was given has been written to since")
            return trial(1 if runs == 1 else limit.runs)
        except StoppedAtEffect as stop:
            return untried(report, f"{stop.note.fields['name']} {stop.note.fields['effect']}")
        except (Exception, SystemExit) as error:  # noqa: BLE001  the program has run: what it raises now is no answer
            return untried(report, f"{name_of(self.request.target)} raised {type(error).__name__} when it ran again")

    def again(self, within: AbstractContextManager[Any], request: Request | None = None) -> Any:
        """Record the program again, within a context; ``request`` may ask for other values of the program.

        Raises any error of the program, and StoppedAtEffect.
        """
        with self._running(self._replay()), (self.backend.uncompiled or nullcontext)(), within:
            return Recording(self.recorded(request or self.request))

    def useless(self) -> Sequence[Note]:
        """Return notes on useless gradients, found by running the program again. If it raises an error or has a side
        effect, the only note says so.

        Empty if the framework cannot look for them, with several outputs, or with replaced values.
        """
        if self.backend.useless_in_call is None or len(self.request.asked) > 1 or self.is_replaced:
            return ()
        call = RepeatedCall(self.request.target, self.args, self.kwargs, self.request.wrt, self._output)
        try:
            with self._running(self._replay()), (self.backend.uncompiled or nullcontext)():
                return self.backend.useless_in_call(call)
        except StoppedAtEffect as stop:
            return [stop.note]
        except (Exception, SystemExit) as error:  # noqa: BLE001  the program has run: what it raises now is no answer
            return [self._not_again(f"raised {type(error).__name__} when it ran the second time")]

    @contextmanager
    def _running(self, replay: Replay) -> Iterator[None]:
        # Within this context the program runs again, and its output is suppressed. Raises StoppedAtEffect at its first
        # side effect, or if another program is already running again.
        with silent() as is_silent:
            if not is_silent:
                raise StoppedAtEffect(self._not_again("would run beside another program that runs again"))
            try:
                with replay.run(), self.modes(), harmless(name_of(self.request.target)):
                    yield
            except UsedUp as used:
                raise StoppedAtEffect(self._took(used.one)) from None
            for one in replay.taken.values():
                raise StoppedAtEffect(self._took(one))

    def _took(self, one: Any) -> Note:
        return self._not_again(f"took from {kind(one)} when it ran the second time")

    def _replay(self) -> Replay:
        # Raises StoppedAtEffect if another run is known to have a side effect that cannot be undone.
        replay = Replay(self.backend, self.request.target, self.args, self.kwargs, taken=self.taken)
        lost = replay.state.lost
        effect = f"takes from {kind(lost[0])}, or gives to it" if lost else replay.state.effect()
        if effect:
            raise StoppedAtEffect(self._not_again(effect))
        return replay

    def _not_again(self, effect: str) -> Note:
        return Note("side_effect", {"name": name_of(self.request.target), "effect": effect})

    def _output(self, result: Any, tensors: Tensors) -> tuple[Any, Any]:
        asked = self.request.asked[0]
        found = choose(result, asked.of, asked.cotangent, tensors)
        return found.tensor, found.cotangent


def versions(backend: Backend, given: Iterable[Any]) -> list[int | None]:
    """Return, for each tensor among these values, the framework's count of writes, if there is one."""
    is_tensor, version = backend.arrays.is_tensor, backend.arrays.version
    return [version(value) for value in given if is_tensor(value)]


def _is_overwritten(entry: Entry) -> bool:
    try:
        return bool(entry.is_leaf) and entry.value is None
    except Overwritten:
        return True
    except BackprobeError:
        return False
