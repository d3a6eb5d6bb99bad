"""The jump of a loss that stays up: means of the last steps against those before, and ranks in place of single numbers.

Of two neighbouring windows all of the second lies above all of the first, or so many pairs do (Mann and Whitney) that
chance would give it in one of a million windows; the mean has risen by a standard deviation of the first and by 5 %,
more than a steady rise explains, and by half more than it has ever risen between two such windows before. Two means
are nearer to the numbers than a straight line is; but of four steps alone, in which one that diverges is on its way.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy

from backprobe.rules.rule import RULES
from backprobe.rules.window import Mask, Matrix

APART = (4, 40), (6, 18), (8, 12)
"""Lengths of two windows, after and before: numbers of one distribution are all apart in one of 100,000 of them."""
MIXED = (16, 48), (32, 64)
DEVIATIONS = 4.75  # of the number of pairs: one in a million
FIRST, EARLY, GROWN = 16, 4, 6.0  # steps of a training in which four above six times the four before are a jump
LEAST, RECORD, DRIFT, SURE = RULES["rising_loss"].threshold - 1, 1.5, 2.0, 2.0
NEAR, AT_ONCE = 4, 0.8
"""A jump is not yet seen in the last quarter of what is before it: of a slow rise most is there already."""
ROUNDED = 1e-9
BLOCK = 4096  # windows that are judged at once


def jump(numbers: Matrix, since: int = 0) -> tuple[int, float] | None:
    """The first step, from ``since`` on, at which it is sure that these numbers have jumped; how many times their mean.

    >>> jump(numpy.array([1.0, 1.2, 0.9] * 20 + [2.8] * 4))
    (63, 2.7184466019417473)
    >>> jump(numpy.array([1.0, 5.0, 0.1] * 40)) is None
    True
    """
    found = [
        one
        for one in (*_apart(numbers, since), *_mixed(numbers, since), *_early(numbers[:FIRST], since))
        if one is not None
    ]
    if not found:
        return None
    at, after, before = min(found)
    ends = numbers[at + 1 - after : at + 1].mean(), numbers[at + 1 - after - before : at + 1 - after].mean()
    return at, float(ends[0] / ends[1]) if ends[1] else numpy.inf


def _apart(numbers: Matrix, since: int) -> Iterator[tuple[int, int, int] | None]:
    for after, before in APART:
        for start, first, second in _windows(numbers, after, before, since):
            yield _first(start, second.min(axis=1) > first.max(axis=1), numbers, after, before)


def _mixed(numbers: Matrix, since: int) -> Iterator[tuple[int, int, int] | None]:
    for after, before in MIXED:
        pairs = after * before
        sure = pairs / 2 + DEVIATIONS * numpy.sqrt(pairs * (after + before + 1) / 12)
        for start, first, second in _windows(numbers, after, before, since):
            means = first.mean(axis=1)
            held = second.mean(axis=1) - means > LEAST * abs(means) * (1 - ROUNDED)  # of most windows no more is asked
            first, second = first[held], second[held]
            above = sum((second[:, [at]] > first).sum(axis=1) for at in range(after))
            held[held] = numpy.asarray(above >= sure)
            yield _first(start, held, numbers, after, before)


def _early(numbers: Matrix, since: int) -> Iterator[tuple[int, int, int] | None]:
    for start, first, second in _windows(numbers, EARLY, EARLY, since):
        held = (second.min(axis=1) > GROWN * first.max(axis=1)) & (first.min(axis=1) > 0)
        yield (start + int(held.argmax()), EARLY, EARLY) if held.any() else None


def _windows(numbers: Matrix, after: int, before: int, since: int) -> Iterator[tuple[int, Matrix, Matrix]]:
    # The windows before and after each step from ``since`` on, in blocks; with the step at which the first ends.
    width = after + before
    if len(numbers) < width:
        return
    both = numpy.lib.stride_tricks.sliding_window_view(numbers, width)
    for at in range(max(since - width + 1, 0), len(both), BLOCK):
        block = both[at : at + BLOCK]
        yield at + width - 1, block[:, :before], block[:, before:]


def _first(start: int, held: Mask, numbers: Matrix, after: int, before: int) -> tuple[int, int, int] | None:
    # The first of these windows that is a jump in size, too: most have no candidate, and cost nothing more.
    for at in (start + numpy.flatnonzero(held)).tolist():
        if _is_large(numbers[: at + 1], after, before):
            return at, after, before
    return None


def _is_step(first: Matrix, second: Matrix) -> bool:
    # Are two means nearer to these numbers than a straight line is?
    both = numpy.concatenate([first, second])
    slope = numpy.corrcoef(numpy.arange(len(both)), both)[0, 1]
    return bool((first.var() + second.var()) / 2 < both.var() * (1 - slope**2))


def _is_large(numbers: Matrix, after: int, before: int) -> bool:
    first, second = numbers[-after - before : -after], numbers[-after:]
    rise, middle = second.mean() - first.mean(), before // 2
    early, late = first[:middle], first[middle:]
    error = numpy.sqrt(early.var() / len(early) + late.var() / len(late))
    drift = max(0.0, late.mean() - early.mean() + SURE * error)
    if rise <= max(LEAST * abs(first.mean()), first.std()) + DRIFT * drift:
        return False
    begins = second[: after // 2] if after >= MIXED[0][0] else second
    near = first[-max(NEAR, before // 4) :].mean()
    if begins.mean() - near < AT_ONCE * max(rise, second.mean() - near):
        return False
    if after > EARLY and not _is_step(first[-after:], second):
        return False
    past = numbers[: len(numbers) - after]
    if len(past) < after + before:
        return True
    sums = numpy.concatenate([[0.0], past.cumsum()])
    short = (sums[before + after :] - sums[before:-after]) / after
    long = (sums[before : len(sums) - after] - sums[: len(sums) - after - before]) / before
    return bool(rise > RECORD * max(0.0, (short - long).max()))
