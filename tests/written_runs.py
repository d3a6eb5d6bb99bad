"""Runs written without a training: rows of known numbers, and what must be read back."""

import math
from pathlib import Path

import numpy

import backprobe as bp
from backprobe.record.statistics import COLUMNS, NOTHING, measured
from backprobe.storage.runs.layout import IS_OPEN as IS_OPEN
from backprobe.storage.runs.layout import RowKey, StepData
from backprobe.storage.runs.writer import RunWriter

KINDS = ("value", "grad")


def writer(folder, rank=0, **facts):
    return RunWriter(Path(folder), rank, facts, "bp.watch(model, folder)")


def rows(names, kinds=KINDS, merge="sum"):
    return [RowKey(name, kind, merge) for name in names for kind in kinds]


def matrix(seed, height, missing=()):
    """The statistics of random numbers, a column of the matrix for each row; those missing have no numbers."""
    random = numpy.random.default_rng(seed)
    made = [NOTHING if at in missing else measured(random.normal(size=5)) for at in range(height)]
    return numpy.array(made).reshape(height, len(COLUMNS)).T


def step(number, height, seed=None, missing=(), **info):
    return StepData(number, matrix(number if seed is None else seed, height, missing), **info)


def fill(writer, steps, height, **info):
    """Append and commit steps, some at a time."""
    for at, number in enumerate(steps):
        writer.append(step(number, height, **info))
        if at % 3 == 2:
            writer.commit()
    writer.commit()


def rms(data, place):
    """As it must be read back."""
    finite, squares = data.matrix[1, place], data.matrix[7, place]
    return math.sqrt(squares / finite) if finite else math.nan


def row(*numbers):
    """The statistics of these numbers."""
    return measured(numpy.array(numbers, numpy.float64))


def written(folder, keys, steps, backwards=0, **facts):
    """A run of these rows: for each step the numbers of each, None for none, and so many passes."""
    one = writer(folder, **facts)
    one.add_rows([RowKey(*key) for key in keys])
    for at, step in enumerate(steps):
        rows = [NOTHING if numbers is None else row(*numbers) for numbers in step]
        made = numpy.array(rows).reshape(len(rows), len(COLUMNS)).T
        one.append(StepData(at, made, backwards=backwards, skipped=at in facts.get("skip", ())))
    one.close()
    return bp.open_run(folder)


def kinds(run):
    """The alerts of a run, in short."""
    return [(one.kind, one.step, one.name) for one in run.alerts.findings]
