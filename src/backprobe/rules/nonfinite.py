"""The first NaN or Inf, and whether it began forward in a value or backward in a gradient."""

from __future__ import annotations

import numpy

from backprobe.rules.alert import Alert, Sighting, alert
from backprobe.rules.window import Mask, OneAlert, RunRows, Table, Window
from backprobe.storage.runs.merged import NOT_FINITE


class NonfiniteRule(OneAlert):
    """Looks for NaN and Inf in values and logged numbers of all steps but those left open, and in gradients and
    parameters except in steps that a scaler skipped.
    """

    def __init__(self, rows: RunRows) -> None:
        super().__init__(rows)
        self.begins: Mask | None = None  # which values are infinite in the first step

    def look(self, window: Window) -> None:
        whole = window.whole
        if self.found or whole is None:
            return
        if self.begins is None and len(whole.steps) and whole.values:
            self.begins = (whole.values.column("posinf") + whole.values.column("neginf"))[:, :1] > 0
        found = [(table, kind, self._bad(table, kind)) for table, kind in _tables(window)]
        steps = [_first(table.window, bad) for table, _, bad in found if bad.any()]
        steps += [
            int(at[~numpy.isfinite(numbers)][0])
            for at, numbers in whole.logged.values()
            if not numpy.isfinite(numbers).all()
        ]
        known = [step for step in steps if step is not None]
        if not known:
            return
        step = min(known)
        for table, kind, bad in found:
            here = numpy.flatnonzero(table.window.wide(bad)[:, table.window.steps == step].any(axis=1))
            if len(here):
                ordered = [int(one) for one in (here[::-1] if kind == "grad" else here)]
                self.found = _said(table, kind, ordered, step)
                return
        logged = whole.logged.items()
        name = next(name for name, (at, numbers) in logged if not numpy.isfinite(numbers[at == step]).all())
        headline = "the first NaN or Inf is in '{name}'"
        self.found = alert("nonfinite", [Sighting(step, name, numpy.nan)], "logged", headline, _remedy(step))

    def _bad(self, table: Table, kind: str) -> Mask:
        # The numbers that are NaN or Inf. Values that were infinite from the first step on may stay infinite.
        bad: Mask = table.is_nonfinite
        if not bad.any():
            return bad
        nan, above, below = (table.column(what) > 0 for what in NOT_FINITE)
        infinite: Mask = above | below
        if kind == "value" and self.begins is not None:
            infinite = infinite & ~self.begins
        return nan | infinite


def _tables(window: Window) -> list[tuple[Table, str]]:
    # The tables to examine, in the order in which a step produces them.
    values = window.whole.values if window.whole else window.values
    tables = (values, "value"), (window.gradients, "grad"), (window.used, "grad"), (window.parameters, "param")
    return [(table, kind) for table, kind in tables if table]


def _first(window: Window, bad: Mask) -> int | None:
    # The first new step in which a row has NaN or Inf.
    fresh = window.wide(bad.any(axis=0))[window.fresh :]
    return int(window.steps[window.fresh + int(fresh.argmax())]) if fresh.any() else None


def _said(table: Table, kind: str, rows: list[int], step: int) -> list[Alert]:
    at = int(numpy.searchsorted(table.window.steps, step))
    first = table.some(rows[:1])
    counts = {name: float(table.window.wide(first.column(name))[0, at]) for name in NOT_FINITE}
    seen = [Sighting(step, table.names[row], sum(counts.values())) for row in rows]
    of = {"value": "", "grad": "the gradient of ", "param": "the parameter "}[kind]
    headline = f"the first {'NaN' if counts['nan'] else 'Inf'} is in {of}'{{name}}': {{number}} numbers"
    field = f"{kind}.{max(counts, key=counts.__getitem__)}"
    return alert("nonfinite", seen, field, headline, _remedy(step))


def _remedy(step: int) -> str:
    return f"with bp.guard(model): around step {step}, which names the line where it is born"
