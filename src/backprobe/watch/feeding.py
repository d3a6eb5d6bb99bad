"""The thread that sends the written steps of a watched training to sinks.

Another thread writes the run, so a dashboard that hangs does not delay it. If the sinks fall far behind, they miss some
steps, but the run never does.
"""

from __future__ import annotations

import math
import os
import queue
import threading
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy

from backprobe.findings.phrasing import plural
from backprobe.record.patterns import root_spelled_out, selection, texts_of
from backprobe.record.statistics import COLUMNS, statistic
from backprobe.rules import Alert, alerts
from backprobe.storage.runs.layout import Matrix, RowKey, StepData
from backprobe.storage.runs.merged import LOGGED, RATIO, logged, open_ranks
from backprobe.watch.sinks import NOT_FINITE, Sink

if TYPE_CHECKING:
    from backprobe.rules.judge import Judge

MOST_WAITING = 1000  # if this number of steps is waiting, sinks miss the next ones
LAST_WAIT = 60.0  # seconds that the end of a training waits for sinks
# the number of steps before the first search for alerts, and the factor by which this number grows for each following
# search
FIRST_LOOK, GROWTH = 20, 1.25
LARGE = 3e38  # a dashboard may store another number instead of a number above this one
KINDS_OF_RATIO = ("update", "param")
OWN = ("param", "update", "grad_backward")  # kinds that only parameters have


@dataclass
class Fed:
    """One sink, and the rows that it receives: by field, their labels and places."""

    sink: Sink
    rows: dict[str, tuple[list[str], list[list[int]]]] = field(default_factory=dict)
    height: int = 0
    ill: set[str] = field(default_factory=set)  # labels of counts of NaN or Inf that were above 0 before
    asked: set[bool] = field(default_factory=set)  # was the sink asked what it stores for Inf, and for large numbers?
    failure: Exception | None = None
    is_reported: bool = False

    def look(self, keys: Sequence[RowKey], height: int) -> None:
        """Select rows again after new ones have appeared."""
        if height == self.height:
            return
        self.height = height
        texts = None if self.sink.select is None else tuple(map(root_spelled_out, texts_of(self.sink.select)))
        wants = selection(texts, False).might_want
        places = {(one.name, one.kind): at for at, one in enumerate(keys[:height])}
        own = {one.name for one in keys[:height] if one.kind in OWN or (one.kind, one.merge) == ("grad", "once")}
        for name in self.sink.fields:
            kinds = KINDS_OF_RATIO if name == RATIO else (name.rpartition(".")[0] or name,)
            names = [
                one.name
                for one in keys[:height]
                if one.kind == kinds[0] and (one.kind == LOGGED or texts is None or wants(_full(one.name, own)))
            ]
            found = [(one, [places[one, kind] for kind in kinds]) for one in names if (one, kinds[-1]) in places]
            if found:
                self.rows[name] = [f"{name}/{one}" for one, _ in found], [at for _, at in found]

    def numbers(self, matrix: Matrix) -> dict[str, float]:
        """The numbers of a step that the sink receives, from rows that have numbers."""
        found: dict[str, float] = {}
        for name, (labels, places) in self.rows.items():
            parts = [dict(zip(COLUMNS, matrix[:, each], strict=True)) for each in numpy.array(places).T]
            if name == RATIO:
                with numpy.errstate(all="ignore"):
                    numbers = statistic("rms", parts[0]) / statistic("rms", parts[1])
            else:
                numbers = logged(parts[0]) if name == LOGGED else statistic(name.rpartition(".")[2], parts[0])
            there = zip(labels, numbers.tolist(), parts[0]["count"].tolist(), strict=True)
            known = {label: number for label, number, count in there if count}
            if name.rpartition(".")[2] in NOT_FINITE:
                self.ill |= {label for label, number in known.items() if number}
                known = {label: number for label, number in known.items() if label in self.ill}
            found |= known
        return found

    def unstored(self, step: int, numbers: Mapping[str, float]) -> str:
        """A remark if the dashboard stored another number than it was sent; otherwise empty.

        One infinite number and one large finite number are looked up in a run.
        """
        for label, number in numbers.items():
            if abs(number) > LARGE and math.isinf(number) not in self.asked:
                self.asked.add(math.isinf(number))
                kept = self.sink.stored(step, label, number)
                if kept != number:
                    stored = f"{_spelled(number)} is not stored here, but {_spelled(kept)} in its place"
                    return f"{stored}: {label} at step {step}. The run on disk has it."
        return ""


def _spelled(number: float) -> str:
    # A number as people write it, with ``Inf`` for infinity.
    return f"{'-' * (number < 0)}Inf" if math.isinf(number) else f"{number:.3g}"


def _full(name: str, parameters: Container[str]) -> str:
    # The full name of a row, for matching patterns. For a module, it is the name of the module's return value.
    if name in parameters or ":" in name:
        return name
    return f":{name}" if name.partition(".")[0] == "return" else f"{name}:return"


class Feeding:
    """Serves the sinks of a watched training, from its creation to ``close``."""

    def __init__(self, sinks: Sequence[Sink], folder: Path, first: int) -> None:
        self.fed = [Fed(sink) for sink in sinks]
        self.folder, self.first, self.process = folder, first, os.getpid()
        self.offered, self.taken, self.next_look, self.is_over = 0, 0, FIRST_LOOK, False
        self.alerted: set[tuple[str, int, str]] = set()
        self.judge: Judge | None = None  # keeps the state of the steps judged so far
        self.waiting: queue.SimpleQueue[tuple[StepData, Sequence[RowKey]] | None] = queue.SimpleQueue()
        for one in self.fed:
            self._try(one, one.sink.open, folder)
        self.thread = threading.Thread(target=self._run, name="backprobe-sinks", daemon=True)
        self.thread.start()

    def put(self, step: StepData, keys: Sequence[RowKey]) -> None:
        """Queue a step that was written, unless too many are waiting. ``keys`` are the keys of all rows so far."""
        self.offered += 1
        if self.waiting.qsize() < MOST_WAITING:
            self.waiting.put((step, keys))

    def close(self) -> None:
        """Called when the run is complete. Sends the queued steps, but the training waits only for a limited time.

        Sinks belong to the process that opened them; a forked child does not close them.
        """
        if os.getpid() != self.process:
            return
        self.waiting.put(None)
        self.thread.join(LAST_WAIT)
        self.is_over = True
        if self.thread.is_alive():
            return
        for one in self.fed:
            failure, one.failure = one.failure, None
            self._try(one, one.sink.close)
            one.failure = failure or one.failure

    def news(self) -> list[str]:
        """Failures that have not been reported yet."""
        found = []
        for one in self.fed:
            if one.failure is not None and not one.is_reported:
                one.is_reported = True
                why = f"{type(one.failure).__name__}: {one.failure}"
                found.append(f"{type(one.sink).__name__} gets nothing more ({why}). The run on disk goes on.")
        if self.is_over and self.offered > self.taken:
            left_out = plural(self.offered - self.taken, "step")
            found.append(f"{left_out} of the run did not go to its sinks, which are too slow.")
            self.offered = self.taken
        return found

    # Methods that run in the thread.

    def _run(self) -> None:
        while (item := self.waiting.get()) is not None:
            step, keys = item
            for one in self.fed:
                self._try(one, _send, one, step, keys)
            self.taken += 1
            if self.taken >= self.next_look:
                self._look()
        self._look()

    def _look(self) -> None:
        # Send alerts that were not sent before.
        self.next_look = int((self.first + self.taken) * GROWTH) - self.first
        asking = [one for one in self.fed if one.sink.alerts and one.failure is None]
        if not asking:
            return
        try:
            from backprobe.rules.judge import Judge

            reader = open_ranks(self.folder, f"bp.open_run({str(self.folder)!r})")
            try:  # Closed each time, because an open reader would keep the writer from removing its log.
                self.judge = self.judge or Judge(reader)
                self.judge.use(reader)
                found = [one for one in alerts(reader, judge=self.judge).findings if isinstance(one, Alert)]
            finally:
                reader.close()
        except Exception as error:  # noqa: BLE001  # a training must not fail for being watched
            for one in asking:
                one.failure = error
            return
        for each in found:
            key = each.kind, each.step, each.name
            if key in self.alerted or key[1] < self.first:
                continue
            self.alerted.add(key)
            for one in asking:
                self._try(one, one.sink.alert, key[1], str(each))

    def _try(self, one: Fed, work: Callable[..., None], *args: Any) -> None:
        if one.failure is not None:
            return
        try:
            work(*args)
        except Exception as error:  # noqa: BLE001  # a training must not fail for a dashboard
            one.failure = one.failure or error


def _send(one: Fed, step: StepData, keys: Sequence[RowKey]) -> None:
    if step.step % one.sink.every:
        return
    one.look(keys, step.matrix.shape[1])
    numbers: Mapping[str, float] = one.numbers(step.matrix)
    if numbers:
        one.sink.send(step.step, numbers)
        if one.sink.alerts and (said := one.unstored(step.step, numbers)):
            one.sink.alert(step.step, said)
