"""The loss that was logged: flat from the start, jumping up, or swinging to and fro."""

from __future__ import annotations

from collections.abc import Iterator

import numpy
from numpy.typing import NDArray

from backprobe.rules import falling
from backprobe.rules.alert import Alert, Seen, alert
from backprobe.rules.history import History, Matrix
from backprobe.rules.jumps import jump
from backprobe.rules.rule import RULES

FLAT, SURE = RULES["flat_loss"].threshold, 2.0  # of the loss; standard errors
SOON, LEAST = 20, 100  # steps: from which on it may be seen to fall, and to be flat
WINDOW, TURNS, SWING, FALLING = 12, 0.6, RULES["oscillating_loss"].threshold, 0.9
MORE = 20  # a growing window is looked at as it has grown by so much of it: 1/20


def check(history: History) -> Iterator[Alert]:
    """Each rule from the first step on, of the steps so far alone."""
    yield from falling.check(history)
    if history.loss is None:
        return
    name, steps, numbers = history.loss
    is_finite = numpy.isfinite(numbers)
    steps, numbers = steps[is_finite], numbers[is_finite]
    if len(numbers):
        yield from _rising(name, steps, numbers)
        yield from _oscillating(name, steps, numbers)
        yield from _flat(name, steps, numbers)


def _rising(name: str, steps: NDArray[numpy.int64], numbers: Matrix) -> Iterator[Alert]:
    found = jump(numbers)
    if found is not None:
        at, number = found
        headline = "'{name}' jumps and stays up: its mean is {number} times that of the steps before"
        remedy = "a lower learning rate, warm-up, gradient clipping, the data of these steps, or the sign of the loss"
        seen = [Seen(int(steps[at]), name, number)]
        yield from alert("rising_loss", seen, "logged", headline, remedy)


def _oscillating(name: str, steps: NDArray[numpy.int64], numbers: Matrix) -> Iterator[Alert]:
    if len(numbers) < WINDOW:
        return
    windows = numpy.lib.stride_tricks.sliding_window_view(numbers, WINDOW)
    differences = numpy.diff(windows, axis=1)
    turns = (differences[:, 1:] * differences[:, :-1] < 0).mean(axis=1)
    first, second = (half.mean(axis=1) for half in numpy.split(windows, 2, axis=1))
    with numpy.errstate(all="ignore"):
        swing = abs(differences).mean(axis=1) / abs(windows).mean(axis=1)
    error = SURE * numpy.sqrt((windows.var(axis=1, ddof=1) + windows[0].var(ddof=1)) / WINDOW)
    is_high = (second >= FALLING * first) & (windows.mean(axis=1) > windows[0].mean() + error)
    held = (turns >= TURNS) & (swing > SWING) & is_high & (windows > 0).all(axis=1)  # around 0 any loss swings
    if held.any():
        at = int(held.argmax())
        seen = [Seen(int(steps[at + WINDOW - 1]), name, float(swing[at]))]
        headline = "'{name}' oscillates: from step to step by {number} of its mean"
        remedy = "a lower learning rate, larger batches, or gradient clipping"
        yield from alert("oscillating_loss", seen, "logged", headline, remedy)


def _flat(name: str, steps: NDArray[numpy.int64], numbers: Matrix) -> Iterator[Alert]:
    end = SOON
    while end <= len(numbers):
        fall, error = _fall(numbers[:end])
        if fall - error > FLAT:
            return
        if fall + error < FLAT and end >= LEAST and not _falls_yet(numbers[:end]):
            seen = [Seen(int(steps[end - 1]), name, fall + error)]
            headline = "'{name}' is flat: it has fallen by less than {number} of it"
            remedy = "whether labels belong to inputs, whether the loss depends on the model, and the learning rate"
            yield from alert("flat_loss", seen, "logged", headline, remedy)
            return
        end += 1 + end // MORE


def _falls_yet(numbers: Matrix) -> bool:
    # Would it fall by so much in as many steps again, at the pace of the second half? A plateau ends like that.
    fall, error = _fall(numbers[len(numbers) // 2 :])  # over a quarter of all steps
    return 4 * (fall - error) > FLAT


def _fall(numbers: Matrix) -> tuple[float, float]:
    # How much it has fallen from the first half to the second, as a part of it, and how much chance may hide.
    first, second = numbers[: len(numbers) // 2], numbers[len(numbers) // 2 :]
    error = SURE * numpy.sqrt(first.var(ddof=1) / len(first) + second.var(ddof=1) / len(second))
    scale = abs(first.mean()) or 1.0
    return float((first.mean() - second.mean()) / scale), float(error / scale)
