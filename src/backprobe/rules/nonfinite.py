"""The first NaN or Inf, and where it began: forward in a value, or backward in a gradient."""

from __future__ import annotations

from collections.abc import Iterator

import numpy

from backprobe.rules.alert import Alert, Seen, alert
from backprobe.rules.history import History, Mask, Table

KINDS = ("nan", "posinf", "neginf")


def check(history: History) -> Iterator[Alert]:
    steps = [step for step in (_of_rows(history), _of_logged(history)) if step is not None]
    if not steps:
        return
    step = min(steps)
    for table, kind in _tables(history):
        found = numpy.flatnonzero(_bad(table, kind)[:, table.history.steps == step].any(axis=1))
        if len(found):
            ordered = [int(one) for one in (found[::-1] if kind == "grad" else found)]
            yield from _said(table, kind, ordered, step)
            return
    logged = history.whole.logged.items()
    name = next(name for name, (at, numbers) in logged if not numpy.isfinite(numbers[at == step]).all())
    headline = "the first NaN or Inf is in '{name}'"
    yield from alert("nonfinite", [Seen(step, name, numpy.nan)], "logged", headline, _remedy(step))


def _tables(history: History) -> list[tuple[Table, str]]:
    # What may have it, in the order in which a step comes to it.
    values, gradients = (history.whole.values, "value"), (history.gradients, "grad")
    tables = values, gradients, (history.used, "grad"), (history.parameters, "param")
    return [(table, kind) for table, kind in tables if table.rows]


def _bad(table: Table, kind: str) -> Mask:
    # Where there is NaN or Inf; of values, without Inf where that is there from the first step on.
    nan, above, below = (numpy.nan_to_num(table[what]) > 0 for what in KINDS)
    infinite: Mask = above | below
    return nan | (infinite & ~infinite[:, :1] if kind == "value" else infinite)


def _of_rows(history: History) -> int | None:
    # The first step in which a row has some.
    found = [(table.history.steps, _bad(table, kind).any(axis=0)) for table, kind in _tables(history)]
    return min((int(steps[one.argmax()]) for steps, one in found if one.any()), default=None)


def _of_logged(history: History) -> int | None:
    bad = [steps[~numpy.isfinite(numbers)] for steps, numbers in history.whole.logged.values()]
    return min((int(one[0]) for one in bad if len(one)), default=None)


def _said(table: Table, kind: str, rows: list[int], step: int) -> list[Alert]:
    at = int(numpy.searchsorted(table.history.steps, step))
    counts = {name: float(numpy.nan_to_num(table[name][rows[0], at])) for name in KINDS}
    seen = [Seen(step, table.names[row], sum(counts.values())) for row in rows]
    of = {"value": "", "grad": "the gradient of ", "param": "the parameter "}[kind]
    headline = f"the first {'NaN' if counts['nan'] else 'Inf'} is in {of}'{{name}}': {{number}} numbers"
    field = f"{kind}.{max(counts, key=counts.__getitem__)}"
    return alert("nonfinite", seen, field, headline, _remedy(step))


def _remedy(step: int) -> str:
    return f"with bp.guard(model): around step {step}, which names the line where it is born"
