"""Applies the rules to a run, one window of steps after another. Judged steps are only read as context of new ones."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any, Protocol

import numpy
from numpy.typing import NDArray

from backprobe.record.gaps import GapCode
from backprobe.rules.accumulated import Accumulated
from backprobe.rules.alert import Alert
from backprobe.rules.dead_units import DeadUnits
from backprobe.rules.depth import Depth
from backprobe.rules.initial import Initial
from backprobe.rules.loss import Loss
from backprobe.rules.nonfinite import NonfiniteRule
from backprobe.rules.nothing_left import NothingLeft
from backprobe.rules.parameters import ParametersRule
from backprobe.rules.picks import PicksRule
from backprobe.rules.precision import Precision
from backprobe.rules.rounding import RoundingRule
from backprobe.rules.shares import Shares
from backprobe.rules.stillness import Stillness
from backprobe.rules.uneven_ranks import UnevenRanks
from backprobe.rules.units import Units
from backprobe.rules.updates import UpdatesRule
from backprobe.rules.window import BACK, Matrix, RunRows, Steps, Window, WindowPart
from backprobe.storage.runs.layout import IS_OPEN
from backprobe.storage.runs.merged import NOT_FINITE, RunReader, logged

MOST, FEWEST, NUMBERS = 1024, 256, 1 << 18
"""The most and the fewest steps that are judged together; and how many numbers of a column are read together, 2 MB."""
KINDS = (
    NonfiniteRule,
    Initial,
    Depth,
    Units,
    DeadUnits,
    ParametersRule,
    NothingLeft,
    Stillness,
    Accumulated,
    UpdatesRule,
    RoundingRule,
    Precision,
    Shares,
    PicksRule,
    Loss,
    UnevenRanks,
)


class RunningRule(Protocol):
    """A rule in use. It receives windows in order, and reports everything that it has found in them so far."""

    def look(self, window: Window) -> None: ...

    def alerts(self) -> Iterator[Alert]: ...


class RunState:
    """The state after the steps judged so far: their number, the places of the latest ones in which something was
    measured, the logged numbers, and the memory of the rules.
    """

    def __init__(self, rows: RunRows) -> None:
        self.rules: list[RunningRule] = [kind(rows) for kind in KINDS]
        self.info: NDArray[Any] | None = None  # the facts that are stored about the judged steps
        # the places of the latest judged steps in which something was measured
        self.kept: Steps = numpy.empty(0, numpy.int64)
        # The number of judged steps in which something was measured, and the number of all judged steps. Neither counts
        # steps that a scaler skipped or that no optimizer finished.
        self.count = self.all_count = 0
        self.begins: int | None = None  # the number of the first step that was neither skipped nor left open
        # in the first step in which all of several optimizers stepped, did each have a backward pass of its own?
        self.takes_turns: bool | None = None
        self.logged: dict[str, tuple[Steps, Matrix]] = {
            row.name: (numpy.empty(0, numpy.int64), numpy.empty(0)) for row in rows.logged
        }

    def __deepcopy__(self, memo: dict[int, Any]) -> RunState:
        # Copies the memory of the rules, and shares the objects that belong to the run.
        found = RunState.__new__(RunState)
        vars(found).update({**vars(self), "rules": [copy.deepcopy(one, memo) for one in self.rules]})
        found.logged = dict(self.logged)
        return found


class Judge:
    """Judges a run while it grows.

    A judged step is not read again, except as context for new ones. Everything is judged from the beginning if a name
    is new, if the training was resumed, if a judged step has changed, or if the state after an earlier step is
    requested.
    """

    def __init__(self, reader: RunReader) -> None:
        self.reader = reader
        self.known: Any = None
        self.rows: RunRows
        self.state: RunState
        self.ahead: tuple[int, int, list[Any], RunState] | None = (
            # the state including steps that some processes have not written yet, and the data from which it was made
            None
        )

    def use(self, reader: RunReader) -> None:
        """Continue with the same run after it was opened again."""
        self.reader = reader
        if self.known is not None:
            self.rows.reader = reader

    def now(self, until: int | None = None) -> RunState:
        """The state now; if ``until`` is given, after that step."""
        info = self.reader.info()
        known = list(self.reader.rows()), len(self.reader.attempts())
        if known != self.known or not self._goes_on(info):
            self.known, self.rows = known, RunRows(self.reader)
            self.state = RunState(self.rows)
        settled = self.reader.settled()
        end = int(numpy.searchsorted(info["step"], min(settled, settled if until is None else until), side="right"))
        if self.state.info is not None and len(self.state.info) > end:  # an earlier step was requested
            self.state = RunState(self.rows)
        self._judge(self.state, info, end)
        last = len(info) if until is None else int(numpy.searchsorted(info["step"], until, side="right"))
        if last <= end:
            return self.state
        if not self._is_ahead(end, last):
            # the state is copied, because some processes have not written these steps yet
            indices, ahead = self._indices(), copy.deepcopy(self.state)
            self._judge(ahead, info, last)
            self.ahead = end, last, indices, ahead
        assert self.ahead is not None
        return self.ahead[3]

    def _indices(self) -> list[Any]:
        # The index of each file; it is another object after the file has changed.
        return [rank.index() for rank in self.reader.ranks.values()]

    def _is_ahead(self, end: int, last: int) -> bool:
        # Were these steps judged before, from unchanged files?
        if self.ahead is None or self.ahead[:2] != (end, last):
            return False
        before, now = self.ahead[2], self._indices()
        return len(before) == len(now) and all(one is other for one, other in zip(before, now, strict=True))

    def _goes_on(self, info: NDArray[Any]) -> bool:
        # Are the judged steps unchanged?
        past = self.state.info
        if past is None:
            return True
        return len(info) >= len(past) and all(
            numpy.array_equal(info[name][: len(past)], past[name]) for name in ("step", "skipped", "time")
        )

    def _judge(self, state: RunState, info: NDArray[Any], end: int) -> None:
        begin = 0 if state.info is None else len(state.info)
        size = max(FEWEST, min(MOST, NUMBERS // max(1, len(self.rows.all))))
        for low in range(begin, end, size):
            self._block(state, info, low, min(low + size, end))
        state.info = info[:end]

    def _block(self, state: RunState, info: NDArray[Any], low: int, high: int) -> None:
        new, skipped = info[low:high], info["skipped"]
        if state.begins is None and (new["skipped"] == 0).any():
            state.begins = int(new[new["skipped"] == 0][0]["step"])
        if state.takes_turns is None:
            state.takes_turns = self._takes_turns(new, low, high)
        state.all_count += int((new["skipped"] == 0).sum())
        first = int(state.kept[0]) if len(state.kept) else low
        part = WindowPart(self.rows, first, high)
        measured = part.column("count")[: len(self.rows.measured)]
        is_measured = numpy.broadcast_to((measured > 0).any(axis=0), (high - first,))
        every = numpy.flatnonzero(is_measured & (skipped[first:high] <= 1)) + first
        counts = every[(every >= low) & (skipped[every] == 0)]
        kept, before = numpy.append(state.kept, counts), len(state.kept)
        logged = self._log(state, part, info[low:high])
        steps, uncleared = info["step"], info["uncleared"]
        whole = Window(part, every - first, steps[every], int((every < low).sum()), 0, logged, uncleared[every])
        window = Window(
            part,
            kept - first,
            steps[kept],
            before,
            state.count - before,
            dict(state.logged),
            uncleared[kept],
            whole,
            state.begins,
            new[["step", "backwards"]][new["skipped"] == IS_OPEN].tolist(),
            bool(state.takes_turns),
        )
        with numpy.errstate(all="ignore"):  # a loss may be so large that its square is infinite
            for rule in state.rules:
                rule.look(window)
        for one in (window, whole):
            one.free()
        state.count += len(counts)
        state.kept = kept[-BACK:]

    def _takes_turns(self, new: NDArray[Any], low: int, high: int) -> bool | None:
        # Do several optimizers take turns? None if there is no step in which all of them stepped.
        count = len(self.rows.fact("optimizers"))
        if count <= 1:
            return False
        lacking = [step for step, *_ in self.rows.reader.gaps([GapCode.NOT_STEPPED.value], low, high)]
        complete = new[(new["skipped"] == 0) & ~numpy.isin(new["step"], lacking)]
        return bool(count <= complete["backwards"][0]) if len(complete) else None

    def _log(self, state: RunState, part: WindowPart, info: NDArray[Any]) -> dict[str, tuple[Steps, Matrix]]:
        # The numbers logged in the last steps of this part, including steps that a scaler skipped. They are also added
        # to the stored ones.
        rows, found = self.rows.logged, dict[str, tuple[Steps, Matrix]]()
        if not rows:
            return found
        places = numpy.arange(len(self.rows.measured), len(self.rows.all))
        columns = {name: part.column(name)[places] for name in ("count", "finite", "sum")}
        is_finite = bool((columns["count"] == columns["finite"]).all())
        columns |= {name: 0 * columns["count"] if is_finite else part.of(places, name) for name in NOT_FINITE}
        wide = {name: numpy.broadcast_to(one, (len(rows), part.high - part.low)) for name, one in columns.items()}
        numbers, there = (one[:, -len(info) :] for one in (logged(wide), wide["count"] > 0))
        there, is_kept = there & (info["skipped"] <= 1), info["skipped"] == 0
        for row, own, at in zip(rows, numbers, there, strict=True):
            found[row.name] = info["step"][at], own[at]
            kept, known = at & is_kept, state.logged[row.name]
            state.logged[row.name] = numpy.append(known[0], info["step"][kept]), numpy.append(known[1], own[kept])
        return found
