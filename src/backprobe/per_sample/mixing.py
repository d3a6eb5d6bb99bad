"""Finds mixed samples: the first value that differs between a sample in its batch and the sample alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import numpy

from backprobe.backends.user_lines import users_line_of
from backprobe.errors import Unsupported
from backprobe.per_sample.runs import SampleRuns
from backprobe.probe.request import asked_as, name_of
from backprobe.record.entries import Entry, GradStatus
from backprobe.recording import Recording
from backprobe.source.user_code import package

OF_MODEL = ("**", "**:*")
"""The pattern for a model: its modules, and the locals of their forwards."""
WHY = (
    "a sample has a gradient of its own where nothing that it computes depends on its batch: statistics of it, "
    "as in a batch normalisation, or numbers drawn for all of it"
)
NEXT = "model.eval(), or LayerNorm in its place; a random key for each sample, as an argument"
NEXT_OF_LINE = (
    "a random key for each sample, as an argument; what else that line takes of the whole batch, as a mean or other "
    "samples, as an argument that holds none: bp.per_sample({name}, ..., batch={batch})"
)


def everything(runs: SampleRuns, tensors: Sequence[Any], *, backward: bool = False) -> Recording:
    """A recording of all values of a run on some samples."""
    return runs.probed(tensors, None if runs.models is None else OF_MODEL, backward=backward)


def batch_axis(many: tuple[int, ...] | None, one: tuple[int, ...] | None, count: int) -> int | None:
    """The axis whose length is the batch size in the shape ``many`` and 1 in the shape ``one``. None if there is no
    such axis, or if there are several.

    >>> batch_axis((5, 3), (1, 3), 5), batch_axis((3,), (3,), 5), batch_axis((5, 5), (1, 1), 5)
    (0, None, None)
    """
    if many is None or one is None or len(many) != len(one):
        return None
    other = [at for at, (whole, part) in enumerate(zip(many, one, strict=True)) if whole != part]
    is_batch = len(other) == 1 and (many[other[0]], one[other[0]]) == (count, 1)
    return other[0] if is_batch else None


def refuse_mixed(runs: SampleRuns) -> NoReturn:
    """Raise Unsupported. Name the line with different results for a sample in its batch and for the sample alone."""
    whole, alone = (everything(runs, tensors) for tensors in (runs.batch.tensors, last(runs)))
    refuse(runs, unlike(runs, whole, alone))


def last(runs: SampleRuns) -> list[Any]:
    """The last sample. (The first one alone might draw the same random numbers as in the batch, so it is not used.)"""
    return runs.batch.part(len(runs.batch) - 1, len(runs.batch))


def refuse(runs: SampleRuns, found: Sequence[Entry]) -> NoReturn:
    """Raise Unsupported, naming the values that mix samples, if any are known."""
    lines = users_lines(found)
    # If only a library's lines are known, search the locals of the model's own forward too: they may have the same
    # values.
    if found and not lines and runs.models is not None:
        whole, alone = (runs.probed(tensors, ":*", backward=False) for tensors in (runs.batch.tensors, last(runs)))
        lines = users_lines(unlike(runs, whole, alone))
    said = ", ".join([*(repr(one.name) for one in found[:1]), *lines[:1]])
    name = name_of(runs.asked.target)
    raise Unsupported(
        f"{name} computes something else for a sample in its batch than alone"
        if said
        else f"gradients of single samples of {name} do not sum to that of their batch",
        asked=runs.asked.call,
        found=said or "neither a sum nor a mean over samples",
        why=WHY if said else "another loss has none of one sample, such as a sum with a penalty on weights",
        next=_next(runs, found[0]) if said else "of=..., the part of the loss that is a sum or a mean",
    )


def _next(runs: SampleRuns, first: Entry) -> str:
    # The advice: another way to run a library's layer, or a change of the program's line.
    if first.source is None or package(first.source.file) is not None:
        return NEXT
    return NEXT_OF_LINE.format(name=asked_as(runs.asked.target), batch=[*runs.batch.names[:1]] or ["x"])


def users_lines(found: Sequence[Entry]) -> list[str]:
    """The lines at which values were computed, except those in libraries."""
    return [str(one.source) for one in found if one.source is not None and package(one.source.file) is None]


def refuse_alone(runs: SampleRuns, error: Exception) -> NoReturn:
    """Raise Unsupported for a program that cannot run on a single sample."""
    line = users_line_of(error.__traceback__)
    said = (str(error).strip().splitlines() or [""])[0]
    raise Unsupported(
        f"{name_of(runs.asked.target)} cannot run on one sample",
        asked=runs.asked.call,
        found=f"{type(error).__name__}: {said}" + (f"\n{line}" if line is not None else ""),
        why=WHY,
        next=NEXT,
    ) from error


def unlike(runs: SampleRuns, whole: Recording, alone: Recording) -> list[Entry]:
    """The values whose part for the last sample differs from the value that this sample has alone.

    A value with the same shape in both runs is skipped: it may be a sum over the samples, like the loss. If it mixes
    samples, later values show it.
    """
    found = []
    for name, entry in whole.items():
        other = alone.get(name)
        if other is None or GradStatus.NOT_FLOAT in (entry.status, other.status) or entry.shape in (None, other.shape):
            continue
        parts = _parts_of_last(runs, entry, other.shape or ())
        if not any(_is_close(runs, part, other.value) for part in parts):
            found.append(entry)
    return found


def _parts_of_last(runs: SampleRuns, entry: Entry, one: tuple[int, ...]) -> list[Any]:
    # The parts of a value that may belong to the last sample, if the batch axis may be folded into another axis: the
    # last rows, or every n-th row. Empty if the shapes do not fit.
    own, count, shape = runs.backend.arrays.numbers(entry.value), len(runs.batch), entry.shape or ()
    other = [at for at, (whole, part) in enumerate(zip(shape, one, strict=False)) if whole != part]
    if len(shape) != len(one) or len(other) != 1 or shape[other[0]] != count * one[other[0]]:
        return []
    rows = numpy.moveaxis(own, other[0], 0)
    return [numpy.moveaxis(part, 0, other[0]) for part in (rows[-one[other[0]] :], rows[count - 1 :: count])]


def _is_close(runs: SampleRuns, one: Any, other: Any) -> bool:
    a, b = (value if isinstance(value, numpy.ndarray) else runs.backend.arrays.numbers(value) for value in (one, other))
    if a is None or b is None:
        return True
    size = numpy.abs(b).max(initial=0, where=numpy.isfinite(b))
    return bool(numpy.allclose(a, b, rtol=0, atol=1e-3 * size or 1e-12, equal_nan=True))
