"""Runs of known numbers, written without a training: planted NaN, names that are markup, very many names."""

import sys
from pathlib import Path

import numpy

sys.path.insert(0, str(Path(__file__).parent.parent))

from backprobe.record.source import Source  # noqa: E402
from backprobe.record.statistics import NOTHING, measured  # noqa: E402
from backprobe.storage.runs.layout import RowKey, StepData  # noqa: E402
from backprobe.storage.runs.writer import RunWriter  # noqa: E402

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"' & \\ \u2028 é 数"
PARTS = ("ln1", "attn", "mlp")
PLANTED = {
    ("h.0.attn", "grad", 0),
    ("h.0.attn", "grad", 399),
    ("h.1.mlp", "value", 200),
    ("h.1.mlp", "value", 201),
    ("h.3.ln1", "param", 77),
    ("h.2.attn", "grad", 123),
    ("h.2.attn", "update", 300),
}
"""Name, kind and step of each NaN."""


def names(blocks=4):
    return [f"h.{block}.{part}" for block in range(blocks) for part in PARTS]


def written(folder, rows, steps, numbers, lines=None, is_ended=True):
    """A run whose rows have the statistics of ``numbers(row, step)``, which is an array, or None for no row."""
    writer = RunWriter(Path(folder), 0, {"every": 1}, "bp.watch(model, folder)")
    writer.add_rows(rows, lines=lines or {})
    for step in steps:
        found = [numbers(row, step) for row in rows]
        matrix = numpy.array([NOTHING if one is None else measured(one) for one in found]).T
        writer.append(StepData(step, matrix, 1.7e9 + step, 1))
        if step % 100 == 99:
            writer.commit()
    if is_ended:
        writer.close()
    else:
        writer.commit()
    return writer


def planted(folder, steps=400, planted=PLANTED, is_ended=True, change=lambda step: 1.0):
    """Twelve modules of four kinds of numbers, a loss, and NaN where it is planted."""
    random = numpy.random.default_rng(0)
    rows = [RowKey(name, kind) for name in names() for kind in ("value", "grad", "param", "update")]
    rows += [RowKey("loss", "logged"), RowKey("lr", "logged")]

    def numbers(row, step):
        if row.name == "loss":
            return numpy.array([3 * 0.99**step + 0.1])
        if row.name == "lr":
            return numpy.array([1e-3])
        size = {"value": 1.0, "grad": 1e-3, "param": 0.3, "update": 1e-4}[row.kind] * change(step)
        found = random.normal(size=8) * size * (1 + names().index(row.name)) * 10 ** (-step / 200)
        if (row.name, row.kind, step) in planted:
            found[:3] = numpy.nan
        return found

    lines = {"h.0.attn": Source("train.py", 12, "x = self.attn(x)")}
    return written(folder, rows, range(steps), numbers, lines, is_ended)


def hostile(folder):
    """Names that are markup, numbers that are huge, and NaN everywhere."""
    rows = [
        RowKey(name, kind) for name in (HOSTILE, "a.<b>x</b>", "constructor", "__proto__") for kind in ("value", "grad")
    ]
    rows += [RowKey(f"loss {HOSTILE}", "logged")]
    special = [numpy.nan, numpy.inf, -numpy.inf, 1e308, -1e308, 5e-324, 0.0]

    def numbers(row, step):
        return numpy.array([special[(step + at) % len(special)] for at in range(3 + len(row.name) % 3)])

    lines = {HOSTILE: Source(f"/{HOSTILE}.py", 1, HOSTILE)}
    return written(folder, rows, range(60), numbers, lines)


def many(folder, count=10_000, steps=20):
    """Very many names."""
    rows = [RowKey(f"h.{at // 77}.part{at % 77 // 7}.inner{at % 7}", "grad") for at in range(count)]
    random = numpy.random.default_rng(0)
    drawn = {step: random.random(count) for step in range(steps)}
    place = {row.name: at for at, row in enumerate(rows)}

    def numbers(row, step):
        at = place[row.name]
        return numpy.array([numpy.nan]) if (at, step) == (7777, 11) else drawn[step][at : at + 1]

    return written(folder, rows, range(steps), numbers)


def one_step(folder):
    return planted(folder, 1, planted=set())


def one_name(folder):
    return written(folder, [RowKey("weight", "grad")], range(5), lambda row, step: numpy.array([step + 1.0]))


def layers(folder):
    """The layers of the recording ``deep``."""
    rows = [RowKey(f"layers.{at}", "grad") for at in range(40)]
    return written(folder, rows, range(5), lambda row, step: numpy.ones(3))


def all_nan(folder):
    rows = [RowKey(name, "grad") for name in names()]
    return written(folder, rows, range(30), lambda row, step: numpy.full(3, numpy.nan))


def only_scalars(folder):
    return written(folder, [RowKey("loss", "logged")], range(30), lambda row, step: numpy.array([1.0 / (step + 1)]))


def empty(folder):
    return written(folder, [RowKey("a", "grad")], [], None)
