"""Measures the gradients of all samples while they are computed, and compares their sum with the batch's gradient."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy

from backprobe.backends.protocol import Backend
from backprobe.backends.vectorized import Gradients
from backprobe.errors import BackprobeError, NoGradient, UnknownName
from backprobe.findings.phrasing import plural
from backprobe.per_sample.asked import AskedSamples
from backprobe.per_sample.mixing import batch_axis, everything, last, refuse, refuse_alone, refuse_mixed, unlike
from backprobe.per_sample.result import PerSample
from backprobe.per_sample.runs import SampleRuns
from backprobe.per_sample.wanted import Wanted
from backprobe.probe.request import name_of
from backprobe.record.entries import GradStatus
from backprobe.recording import Recording

LOOSE = 0.02  # the tolerance for low precision, relative to the gradient
SMALL = 0.01  # relative to the largest gradient: rounding errors below it are ignored
Array = Any
"""A NumPy array with one number for each sample."""


def measured(asked: AskedSamples[...], backend: Backend, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> PerSample:
    """The result of a call of ``per_sample``. Raises BadOption, NothingMatched and Unsupported."""
    runs = SampleRuns(asked, backend, args, kwargs)
    whole = runs.probed(runs.batch.tensors, asked.select)
    wanted = _as_alone(runs, whole, runs.wanted(whole))
    measure = SampleMeasure(runs, wanted, whole)
    weights = measure.weights()
    return PerSample(
        target=name_of(asked.target),
        of=_of(asked, whole),
        losses=measure.losses,
        weights=weights,
        measured=measure.scaled(weights),
        notes=tuple(runs.notes),
        runs=runs,
        wanted=tuple(wanted),
        marks=runs.marks(),
    )


def _of(asked: AskedSamples[...], whole: Recording) -> str:
    return asked.of if isinstance(asked.of, str) else whole.outputs[0].name


def _as_alone(runs: SampleRuns, whole: Recording, wanted: Sequence[Wanted]) -> list[Wanted]:
    # The wanted values as computed for the first sample alone. Raises Unsupported if a single sample cannot be
    # computed.
    first = runs.batch.part(0, 1)
    try:
        alone = runs.probed(first, [one.keys[0] for one in wanted], backward=False)
        values = [alone[one.keys[0]] for one in wanted]
    except Exception as error:
        if isinstance(error, BackprobeError) and not isinstance(error, UnknownName):
            raise
        refuse_alone(runs, error)  # the run on a single sample failed, although the program works with the whole batch
    count = len(runs.batch)
    if count == 1:  # two samples are needed to find the batch axis
        twice = [runs.vectorized.joined([tensor, tensor]) for tensor in runs.batch.tensors]
        more = runs.probed(twice, [one.keys[0] for one in wanted], backward=False)
        shapes = [more[one.keys[0]].shape for one in wanted]
    else:
        shapes = [one.entry.shape for one in wanted]
    found = [
        replace(one, alone=value.value, shape=value.shape or (), axis=batch_axis(shape, value.shape, max(count, 2)))
        for one, value, shape in zip(wanted, values, shapes, strict=True)
    ]
    return runs.bound(found, first)


class SampleMeasure:
    """The measurements of one pass over the samples."""

    def __init__(self, runs: SampleRuns, wanted: Sequence[Wanted], whole: Recording) -> None:
        self.runs, self.wanted, self.whole = runs, wanted, whole
        self.count = len(runs.batch)
        self.total = {one.name: whole[one.keys[0]].grad for one in wanted if one.is_shared}
        """The gradient of the batch with respect to values that its samples share."""

        self.least = 0.0
        """The smallest tolerance, relative to the gradient, with which gradients are compared."""

        self.run(None)

    def run(self, weights: Array | None) -> None:
        """Make one pass over the samples. ``weights`` are their factors in the sum of the gradients, if known."""
        self.weighted = weights
        self.losses = numpy.full(self.count, numpy.nan)
        self.norms = {one.name: numpy.full(self.count, numpy.nan) for one in self.wanted}
        self.dots = {name: numpy.full(self.count, numpy.nan) for name in self.total}
        self.sums: dict[str, Any] = {}
        self.gaps = {one.name: numpy.zeros(2) for one in self.wanted if one.axis is not None}
        self.runs.each(self.wanted, self._take)

    def _take(self, start: int, losses: Any, gradients: Gradients) -> None:
        vectorized, numbers = self.runs.vectorized, self.runs.backend.arrays.numbers
        found = numbers(losses).reshape(-1)
        at = slice(start, start + len(found))
        self.losses[at] = found
        for one in self.wanted:
            self.norms[one.name][at] = vectorized.norms(gradients[one.name])
        weights = self.is_finite[at].astype(float) if self.weighted is None else self.weighted[at]
        for one in self.wanted:
            own = gradients[one.name]
            if one.is_shared:
                self.dots[one.name][at] = vectorized.dots(own, self.total[one.name])
                added = vectorized.summed(own, weights)
                self.sums[one.name] = self.sums[one.name] + added if one.name in self.sums else added
            elif one.axis is not None and one.entry.status is GradStatus.OK:
                self._compare_rows(one, numbers(own), at)

    def _compare_rows(self, one: Wanted, own: Array, at: slice) -> None:
        # Compare the per-sample gradients of an inner value with the rows of the batch's gradient. The squared
        # differences are added up, once for the weights of a mean and once for those of a sum, or for the known weights
        # of the samples.
        rows = numpy.moveaxis(self.runs.backend.arrays.numbers(one.entry.grad), one.axis or 0, 0)[at]
        known = numpy.isfinite(own) & numpy.isfinite(rows)
        for nth, weight in enumerate((1 / self.count, 1.0) if self.weighted is None else (self.weighted[at],)):
            scaled = numpy.reshape(weight, (-1, *[1] * (own.ndim - 1))) * own
            self.gaps[one.name][nth] += (numpy.abs(rows - scaled)[known] ** 2).sum()

    @property
    def is_finite(self) -> Array:
        """Which samples have only finite numbers in the gradients computed so far."""
        return numpy.all([numpy.isfinite(own) for own in self.norms.values()], axis=0)

    # Methods that find the weights of the samples.

    def weights(self) -> Array:
        """The weight of each sample in the loss: 1 in a sum, 1/B in a mean, other numbers in an uneven mean.

        Raises Unsupported if samples are mixed, or if no weights give the gradient of the batch.
        """
        found = self._of_equals()
        if found is None and _is_random(self.runs, self.wanted):
            found = self._of_random()
        if found is None:
            found = self._of_uneven()
        return found

    def _of_equals(self) -> Array | None:
        # Equal weights, if the gradient of the batch shows that the loss is a mean or a sum; None if it is neither. If
        # no sample has a finite gradient, all weights are 1.
        at = self.is_finite.nonzero()[0]
        if len(at) < self.count and all(map(self._is_finite_in_batch, self.wanted)):
            # the program gives NaN for a sample alone, but not for the same sample in its batch
            refuse_mixed(self.runs)
        if not len(at):
            self.runs.notes.append("no sample has a finite gradient: whether the loss is a mean or a sum is not known")
            return numpy.ones(self.count)
        totals: Mapping[str, Any] = self.total
        times = 1
        if len(at) < self.count:
            # a single sample is used twice, because with one sample a mean would equal a sum
            times = 2 if len(at) == 1 else 1
            totals = self._totals([*at] * times)
        for nth, weight in enumerate((1 / (len(at) * times), 1.0)):
            sums = {name: weight * times * self.runs.backend.arrays.numbers(own) for name, own in self.sums.items()}
            of_rows = self.gaps if len(at) == self.count else {}
            if self._is_equal(totals, sums, weight * times, {name: own[nth] for name, own in of_rows.items()}):
                of_each = 1.0 if nth else 1 / self.count
                if len(at) == self.count:
                    self._refuse_chance(of_each)
                else:
                    self.total = {name: own * of_each for name, own in self.sums.items()}
                    self.run(None)
                return numpy.full(self.count, of_each)
        return None

    def _is_finite_in_batch(self, one: Wanted) -> bool:
        return bool(numpy.isfinite(self.runs.backend.arrays.numbers(one.entry.grad)).all())

    def _refuse_chance(self, weight: float) -> None:
        # Gradients may agree by chance. If the losses do not agree, raise Unsupported if other values differ as well.
        loss = float(self.runs.backend.arrays.numbers(self.whole.outputs[0].value).item())
        size = weight * float(numpy.abs(self.losses).sum())
        gap = abs(weight * float(self.losses.sum()) - loss)
        if gap > max(map(self.tolerance, self.norms)) * max(size, abs(loss)):
            runs = self.runs
            whole, alone = (everything(runs, tensors) for tensors in (runs.batch.tensors, last(runs)))
            if found := unlike(runs, whole, alone):
                refuse(runs, found)

    def _totals(self, at: Sequence[int]) -> Mapping[str, Any]:
        # Return the gradients of a batch that consists of the samples ``at``.
        tensors = [self.runs.vectorized.chosen(tensor, at) for tensor in self.runs.batch.tensors]
        made = self.runs.probed(tensors, [one.keys[0] for one in self.wanted])
        return {one.name: made[one.keys[0]].grad for one in self.wanted if one.is_shared}

    def _is_equal(
        self, totals: Mapping[str, Any], sums: Mapping[str, Array], weight: float | Array, of_rows: Mapping[str, float]
    ) -> bool:
        # Is the sum of the samples' gradients equal to the gradient of the batch, except for rounding?
        # rows are compared one by one, so their errors add up as squares
        power = {name: 2 if name in self.gaps else 1 for name in self.norms}
        sizes = {
            name: float(numpy.linalg.norm((weight * own)[self.is_finite], power[name]))
            for name, own in self.norms.items()
        }
        largest = max(sizes.values(), default=0.0)
        gaps = {
            name: float(numpy.linalg.norm(self.runs.backend.arrays.numbers(totals[name]) - own))
            for name, own in sums.items()
        }
        gaps |= {name: float(numpy.sqrt(square)) for name, square in of_rows.items()}
        return all(gap <= self.tolerance(name) * max(sizes[name], SMALL * largest) for name, gap in gaps.items())

    def tolerance(self, name: str) -> float:
        """The relative tolerance between two computations of the same gradient, by its dtype."""
        dtype = str(next(one.entry.dtype for one in self.wanted if one.name == name))
        eps = 2.0**-7 if "bfloat16" in dtype else 2.0**-10 if "16" in dtype else 2.0**-52
        eps = 2.0**-23 if dtype in ("float32", "complex64") else eps
        return float(max(self.least, min(0.2, 3 * eps**0.5)))

    def _of_random(self) -> Array:
        # For a program that draws other random numbers for a sample alone than for its batch: the weights of a mean or
        # of a sum, whichever fits better.
        if _are_mixed(self.runs, self):
            refuse_mixed(self.runs)
        numbers = self.runs.backend.arrays.numbers
        both = [(numbers(self.total[name]).ravel(), numbers(own).ravel()) for name, own in self.sums.items()]
        ratio = sum((a * b).real.sum() for a, b in both) / (sum((b * b).real.sum() for _, b in both) or 1.0)
        weight = 1 / self.count if abs(ratio) < self.count**-0.5 else 1.0
        self.runs.notes.append(
            "the program draws random numbers, and others for a sample alone than in its batch: the rows sum to the "
            "gradient with these numbers, and not to that of a run of the batch"
        )
        self.total = {name: own * weight for name, own in self.sums.items()}
        self.run(None)
        return numpy.full(self.count, weight)

    def _of_uneven(self) -> Array:
        # The weights in a loss that weights samples differently, such as a mean over those targets that are not
        # padding; in low precision perhaps equal weights. Raises Unsupported if none fit.
        whole = everything(self.runs, self.runs.batch.tensors, backward=True)
        alone = everything(self.runs, last(self.runs), backward=True)
        if found := unlike(self.runs, whole, alone):
            refuse(self.runs, found)
        self.least = LOOSE if any("float16" in str(entry.dtype) for entry in whole.values()) else 0.0
        rounded = self._of_equals() if self.least else None
        if rounded is not None:
            self.runs.notes.append(f"rows sum to the gradient of the batch within {LOOSE:.0%}, as in low precision")
            return rounded
        self.least = 0.0
        weights = _weights_of_rows(self.runs, whole, alone)
        if weights is None:
            refuse(self.runs, ())
        self.run(weights)
        sums = {name: self.runs.backend.arrays.numbers(own) for name, own in self.sums.items()}
        of_rows = {name: own[0] for name, own in self.gaps.items()}
        if not self._is_equal(self.total, sums, weights, of_rows):
            refuse(self.runs, ())
        return weights

    def scaled(self, weights: Array) -> Mapping[str, tuple[Array, Array | None, float]]:
        """By name: the weighted norms of the samples' gradients, their inner products with the batch's gradient, and
        its norm.
        """
        found = {}
        for name, norms in self.norms.items():
            total, dots = self.total.get(name), self.dots.get(name)
            size = 0.0 if total is None else float(numpy.linalg.norm(self.runs.backend.arrays.numbers(total)))
            found[name] = norms * numpy.abs(weights), None if dots is None else dots * weights, size
        return found


def _is_random(runs: SampleRuns, wanted: Sequence[Wanted]) -> bool:
    # Does the program compute other gradients when it runs again with the next random numbers?
    keys, tensors, numbers = [one.keys[0] for one in wanted], runs.batch.tensors, runs.backend.arrays.numbers
    with runs.replay.run():
        first, second = (runs.recorded(tensors, keys) for _ in range(2))
        known = [key for key in keys if {first[key].status, second[key].status} == {GradStatus.OK}]
        both = [(numbers(first[key].grad), numbers(second[key].grad)) for key in known]
    return any(not numpy.array_equal(one, other, equal_nan=True) for one, other in both)


def _are_mixed(runs: SampleRuns, measure: SampleMeasure) -> bool:
    # Does the contribution of one sample change if another sample of the batch changes, with the same random numbers?
    # False, with a note, if there are fewer than three samples.
    if measure.count < 3 or not measure.total:
        runs.notes.append(f"with random numbers and {plural(measure.count, 'sample')}, mixing was not looked for")
        return False
    places = [*range(measure.count)]
    batches = [places, [2, *places[1:]], [0, 2, *places[2:]], [2, 2, *places[2:]]]
    signs, totals = (1, -1, -1, 1), [measure._totals(at) for at in batches]
    numbers = runs.backend.arrays.numbers
    for name in measure.total:
        own = [numbers(total[name]) for total in totals]
        gap = numpy.linalg.norm(sum(sign * one for sign, one in zip(signs, own, strict=True)))
        if gap > measure.tolerance(name) * max(map(numpy.linalg.norm, own)):
            return True
    return False


def _weights_of_rows(runs: SampleRuns, whole: Recording, alone: Recording) -> Array | None:
    # The weight of each sample, from the gradients of an inner value: in the batch, and computed for each sample alone.
    # None if no inner value has a batch axis.
    entries = {full: whole.record.entries[at] for full, at in whole.record.names.items()}
    names = [
        full
        for full, entry in entries.items()
        if entry.status is GradStatus.OK
        and full in alone
        and batch_axis(entry.shape, alone[full].shape, len(runs.batch)) is not None
    ]
    if not names:
        return None
    name = names[-1]
    entry, axis = entries[name], batch_axis(entries[name].shape, alone[name].shape, len(runs.batch))
    rows = numpy.moveaxis(runs.backend.arrays.numbers(entry.grad), axis or 0, 0)
    weights = numpy.zeros(len(rows))
    for at, row in enumerate(rows):
        try:
            own = runs.backend.arrays.numbers(runs.probed(runs.batch.part(at, at + 1), [name])[name].grad).reshape(-1)
        except NoGradient:
            continue
        size = float((own.conj() * own).real.sum())
        weights[at] = float((own.conj() * row.reshape(-1)).real.sum()) / size if size else 0.0
    return weights
