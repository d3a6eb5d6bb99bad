"""Observes a script that takes gradients of functions, and computes them again under a probe. This is used for JAX,
which has no blocks.

The script runs without compilation. It is usually stopped at the first gradient with a finding, or when a function
without findings is differentiated a second time. If the first gradient of a function leaves a question open, its second
one is examined as well.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from backprobe.backends.discover import load_arrays
from backprobe.backends.guards import Found, GuardedGradient, GuardListener, again
from backprobe.backends.protocol import Backend
from backprobe.backends.tensors import Arrays
from backprobe.backends.useless import Observed, far_below, found_again, once
from backprobe.backends.zero_gradients import CODE as ALL_ZERO
from backprobe.backends.zero_gradients import all_zero, zero_behind
from backprobe.explain import explain
from backprobe.explain.all_zero import is_zero
from backprobe.findings.report import Finding, Report
from backprobe.probe.disconnected import recorded
from backprobe.probe.function import FunctionRun
from backprobe.probe.request import Request
from backprobe.probe.rerun import Rerun, versions
from backprobe.probe.training_loop import Stopped
from backprobe.record.containers import leaves
from backprobe.record.entries import Entry, GradStatus, Record
from backprobe.record.quoted_errors import first_line
from backprobe.record.reasons import Reason
from backprobe.record.source import Source
from backprobe.record.training import ModuleCall, ModuleRan, Training, Untrained
from backprobe.recording import Recording

RAISED = "where {} traces this line, it raises {}"
UNCOMPILED = "the script was run uncompiled, which hides this"
NOT_AGAIN = "the gradient that {} returned could not be taken again: {}"

WAITED = 8
"""The most gradients of other functions to wait for the second gradient of one function."""

UNITS = {"bfloat16": 2.0**-7, "float16": 2.0**-10}
"""The unit of rounding of the dtypes with coarse rounding."""

FROZEN = Reason("frozen")


class ScriptGradients:
    """Observes the gradients that one script takes.

    ``taken`` is called with each report and a flag, which is True if the report replaces the last one, about the same
    function. ``taken`` returns whether the script can be stopped.
    """

    def __init__(
        self, probe: Request, taken: Callable[[Report, bool], bool], judge: Callable[[Recording], Report]
    ) -> None:
        self.probe, self.taken, self.judge = probe, taken, judge
        self.listening = ExitStack()
        self.backend: Backend | None = None
        self.is_explain = judge is explain and not probe.options.nonfinite
        # For each function, the observations on its first gradient. None if a further gradient cannot show more.
        self.known: dict[Any, Observed | None] = {}
        self.open: Any = None  # the function of the last report, if its second gradient may show more
        self.waited = 0  # gradients of other functions since the last report
        self.count = 0  # gradients that the script has taken
        self.last = 0  # the number of the gradient that came last, counted from 1

    def listen(self, backend: Backend) -> None:
        """Begin to observe gradients, if the backend can observe functions. Later calls have no effect."""
        guards = backend.guards
        if self.backend is None and guards is not None and guards.functions is not None:
            self.backend = backend
            if backend.uncompiled is not None:
                self.listening.enter_context(backend.uncompiled())
            self.listening.enter_context(guards.functions(GuardListener(_is_any, gradient=self._came, every=True)))

    def stop(self) -> None:
        self.listening.close()

    def _came(self, asked: GuardedGradient, bad: Found, is_value: bool) -> None:
        self.count += not is_value
        self.last = self.count + is_value  # with ``is_value``, the gradient is counted later
        if self.probe.options.nonfinite and not bad:
            return
        function = getattr(asked.function, "__code__", asked.function)
        before = self.known.get(function)
        if function in self.known and before is None and not asked.still():
            if asked.is_undecided:
                return
            self.waited += 1
            if self.waited > WAITED or not any(one is not None for one in self.known.values()):
                raise Stopped
            return
        report, found = self._report(asked, before)
        is_open = before is None and (found.is_open or bool(found.endings) or bool(report.of_kind(ALL_ZERO)))
        self.known[function] = found if is_open else None  # another batch may give other findings
        is_instead = before is not None and self.open is function
        self.open = function if is_open else None
        if self.taken(report, is_instead) and not (is_open and report.of_kind(ALL_ZERO)):
            raise Stopped

    def _report(self, asked: GuardedGradient, before: Observed | None) -> tuple[Report, Observed]:
        assert self.backend is not None
        why = asked.why_not_again()
        if why is None:
            request = Request(
                asked.function, of=asked.of, wrt=asked.wrt, cotangent=asked.cotangent, options=self.probe.options
            )
            args, kwargs = asked.arguments()
            run = FunctionRun(request, self.backend)
            try:
                with again(self.backend, asked):
                    record = recorded(run, args, kwargs)[0].record
                    unused = asked.unused()
                record = with_own_gradients(record, asked)
                record = counted(record, asked.wrt, unused, asked.trained)
                record, found = with_zeros(record, asked, self.is_explain, before)
                recording = Recording(record)
                recording._rerun = self._rerun(asked, request, args, kwargs)
                return self.judge(recording), found
            except Exception as error:  # noqa: BLE001  the program itself has run: that is its answer
                where = _where_traced(error, self.backend)
                return Report(NOT_AGAIN.format(asked.asked, first_line(error)), where, complete=False), Observed()
        return Report(NOT_AGAIN.format(asked.asked, why), complete=False), Observed()

    def _rerun(self, asked: GuardedGradient, request: Request, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Rerun:
        # Return the object with which an experiment takes this gradient again.
        assert self.backend is not None
        backend = self.backend

        def anew(request: Request) -> Record:
            with again(backend, asked):
                return recorded(FunctionRun(request, backend), tuple(args), kwargs)[0].record

        given = [value for one in (*args, *kwargs.values()) for _, value in leaves(one)]
        return Rerun(request, backend, args, kwargs, anew, 0.0, versions(backend, given), is_looked_into=True)


def _where_traced(error: Exception, backend: Backend) -> tuple[Finding, ...]:
    # Return a finding with the line that raises the error, if it arises only because the script runs without
    # compilation.
    line = None if backend.traced_line is None else backend.traced_line(error)
    if line is None:
        return ()
    return (Finding("raised", "", RAISED.format(backend.title, type(error).__name__), line, (UNCOMPILED,)),)


def _is_any(name: str) -> bool:
    return True


def _arguments(record: Record, wrt: frozenset[str]) -> dict[int, None]:
    # Return the positions of the entries of these arguments.
    return {
        at: None
        for full, at in record.names.items()
        for name in wrt
        if full == f":{name}#0" or full.startswith(f":{name}#0.")
    }


def with_own_gradients(record: Record, asked: GuardedGradient) -> Record:
    """Return the record in which an argument that cannot be captured has the gradient that the program itself got.

    Such arguments are those of a function that runs inside a transformation as a whole, as under ``jax.shard_map``.
    """
    own = {
        at: asked.left[entry.name]
        for at in _arguments(record, asked.wrt)
        if (entry := record.entries[at]).status is GradStatus.OPAQUE and entry.name in asked.left
    }
    known = {
        at: replace(record.entries[at], status=GradStatus.OK, why=None, held_grad=one)
        for at, one in own.items()
        if load_arrays(record.backend).summary(one) is not None
    }
    return record.with_entries(known)


def with_zeros(
    record: Record, asked: GuardedGradient, is_explain: bool, before: Observed | None
) -> tuple[Record, Observed]:
    """Return the record with notes on useless gradients, and the other observations about this gradient.

    Among the notes: all gradients are exactly 0; a gradient is 0 because every path to the output has a derivative of
    0; a gradient vanishes at an operation. If there was an earlier gradient, the last is noted only if it held there,
    too.
    """
    arrays, entries = load_arrays(record.backend), [record.entries[at] for at in _arguments(record, asked.wrt)]
    there = [one for one in entries if one.status is GradStatus.OK]
    zero = [one.name for one in there if is_zero(arrays, one.held_grad)]
    stopping = asked.stopping(zero) if 0 < len(zero) < len(there) else {}
    notes = [zero_behind(name, by) for name, by in stopping.items()]
    if zero and len(zero) == len(there):
        notes.append(all_zero(zero))
    found = Observed()
    if is_explain and there:
        found = asked.useless({*zero, *_small(arrays, there)} - stopping.keys()).of_zero(zero)
        again = once(found.endings) if before is None else found_again(before.endings, found.endings)
        notes += [*found.notes, *again, *asked.still()]
    return replace(record, notes=(*record.notes, *notes)) if notes else record, found


def _small(arrays: Arrays, there: Sequence[Entry]) -> list[str]:
    # Return the names of arguments whose gradient is far smaller than the others.
    known = {one.name: arrays.summary(one.held_grad) for one in there}
    largest = {name: one.largest for name, one in known.items() if one is not None and not one.nonfinite}
    most = max(largest.values(), default=0.0)
    units = {one.name: UNITS.get(arrays.describe(one.held_grad).dtype or "", 0.0) for one in there}
    return [name for name, one in largest.items() if one < far_below(units[name]) * most]


def counted(
    record: Record, wrt: frozenset[str], unused: Mapping[str, Source | None], trained: Collection[str] | None = None
) -> Record:
    """Return the record, with the facts about which parameters were trained. The parameters are the floating arguments
    in ``wrt``.

    For a Flax NNX model, ``trained`` names the parameters. Running statistics are also arguments, but count as frozen.
    """
    every = [(at, record.entries[at]) for at in _arguments(record, wrt)]
    floating = [(at, one) for at, one in every if one.status not in (GradStatus.NOT_TENSOR, GradStatus.NOT_FLOAT)]
    if trained is not None and any(one.name in trained for _, one in floating):
        frozen = {
            at: replace(one, status=GradStatus.FROZEN, why=FROZEN, held_grad=None)
            for at, one in floating
            if one.name not in trained
        }
        floating = [(at, one) for at, one in floating if at not in frozen]
        record = record.with_entries(frozen)
    untrained = tuple(
        [
            _unread(one.name, unused[one.name])
            if one.name in unused
            else Untrained(one.name, "", "", ModuleRan.UNKNOWN, own=at)
            for at, one in floating
            if one.status is not GradStatus.OK
        ]
    )
    if not floating:
        return record
    return replace(record, training=Training(len(floating), untrained=untrained))


def _unread(name: str, line: Source | None) -> Untrained:
    # An argument that the function does not use, although it may read the same array on this line.
    if line is None:
        return Untrained(name, "", "", ModuleRan.NEVER_READ)
    return Untrained(name, "", "", ModuleRan.CAPTURED, calls=(ModuleCall(line, line.text.strip()),))
