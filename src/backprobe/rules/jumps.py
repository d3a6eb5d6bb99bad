"""A loss that jumps up and stays there, found by comparing a window of steps with the window before it.

Either every number of the second window lies above every number of the first one; or so many pairs of numbers are in
this order that chance would produce as many only once in a million windows (Mann and Whitney). The mean must also have
risen by a standard deviation of the first window, by 5 %, by more than a steady rise explains, and by 1.5 times as much
as between any two such windows before. And two means must fit the numbers better than a straight line does. This is not
required of a second window with only four steps, in which a diverging loss may still be rising.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy

from backprobe.rules.rule import RULES
from backprobe.rules.window import Mask, Matrix

APART = (4, 40), (6, 18), (8, 12)
"""Lengths of the second and the first window. If nothing has changed, chance separates all numbers in 1 of 100,000
windows.
"""
MIXED = (16, 48), (32, 64)
DEVIATIONS = 4.75  # standard deviations of the number of pairs; chance exceeds this once in a million windows
# Among the first 16 steps, four steps count as a jump if they lie above 6 times the four steps before them.
FIRST, EARLY, GROWN = 16, 4, 6.0
LEAST, RECORD, DRIFT, SURE = RULES["rising_loss"].threshold - 1, 1.5, 2.0, 2.0
NEAR, AT_ONCE = 4, 0.8
"""The jump must not have begun in the last quarter of the first window, because most of a slow rise would lie there."""
ROUNDED = 1e-9
BLOCK = 4096  # windows that are judged together


def jump(numbers: Matrix, since: int = 0) -> tuple[int, float] | None:
    """The first step, from ``since`` on, at which these numbers have certainly jumped, and by which factor of their
    mean.

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
            held = second.mean(axis=1) - means > LEAST * abs(means) * (1 - ROUNDED)  # most windows fail this cheap test
            first, second = first[held], second[held]
            above = sum((second[:, [at]] > first).sum(axis=1) for at in range(after))
            held[held] = numpy.asarray(above >= sure)
            yield _first(start, held, numbers, after, before)


def _early(numbers: Matrix, since: int) -> Iterator[tuple[int, int, int] | None]:
    for start, first, second in _windows(numbers, EARLY, EARLY, since):
        held = (second.min(axis=1) > GROWN * first.max(axis=1)) & (first.min(axis=1) > 0)
        yield (start + int(held.argmax()), EARLY, EARLY) if held.any() else None


def _windows(numbers: Matrix, after: int, before: int, since: int) -> Iterator[tuple[int, Matrix, Matrix]]:
    # The windows before and after each step from ``since`` on, in blocks, and the last step of the first pair of
    # windows.
    width = after + before
    if len(numbers) < width:
        return
    both = numpy.lib.stride_tricks.sliding_window_view(numbers, width)
    for at in range(max(since - width + 1, 0), len(both), BLOCK):
        block = both[at : at + BLOCK]
        yield at + width - 1, block[:, :before], block[:, before:]


def _first(start: int, held: Mask, numbers: Matrix, after: int, before: int) -> tuple[int, int, int] | None:
    # Return the first of some windows in which the jump is also large enough. Most calls get no windows, so this costs
    # little.
    for at in (start + numpy.flatnonzero(held)).tolist():
        if _is_large(numbers[: at + 1], after, before):
            return at, after, before
    return None


def _is_step(first: Matrix, second: Matrix) -> bool:
    # Do two means fit these numbers better than a straight line?
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
