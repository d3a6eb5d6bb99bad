"""Problems of the logged loss: it is flat from the start, jumps up, or oscillates."""

from __future__ import annotations

from collections.abc import Iterator

import numpy

from backprobe.rules.alert import Alert, Sighting, alert
from backprobe.rules.falling import Falling
from backprobe.rules.jumps import jump
from backprobe.rules.rule import RULES
from backprobe.rules.window import Matrix, RunRows, Steps, Window

# the threshold, as a share of the loss; and the number of standard errors that make a fall certain
FLAT, SURE = RULES["flat_loss"].threshold, 2.0
SURER = 3.0  # the number of standard errors for a test that is repeated at every step
# the first step at which a fall can be seen, and the first step at which the loss can be called flat
SOON, LEAST = 20, 100
WINDOW, TURNS, SWING, FALLING = 12, 0.6, RULES["oscillating_loss"].threshold, 0.9
MORE = 20  # the growing window is examined again after it has grown by 1/20


class Loss:
    """Several rules about the loss, from the first step on, each using only the steps so far."""

    def __init__(self, rows: RunRows) -> None:
        self.falling = Falling(rows)
        self.judged = 0  # the number of losses examined so far
        self.found: dict[str, list[Alert]] = {}
        self.next_end: int | None = SOON  # the number of losses at which flatness is tested next

    def look(self, window: Window) -> None:
        self.falling.look(window)
        if window.loss is None or window.takes_turns:
            return
        name, steps, numbers = window.loss
        is_finite = numpy.isfinite(numbers)
        steps, numbers = steps[is_finite], numbers[is_finite]
        if len(numbers) > self.judged:
            for how, rule in (("rising", self._rising), ("oscillating", self._oscillating), ("flat", self._flat)):
                if how not in self.found:
                    found = rule(name, steps, numbers)
                    self.found |= {how: found} if found else {}
            self.judged = len(numbers)

    def alerts(self) -> Iterator[Alert]:
        yield from self.falling.alerts()
        for how in ("rising", "oscillating", "flat"):
            yield from self.found.get(how, ())

    def _rising(self, name: str, steps: Steps, numbers: Matrix) -> list[Alert]:
        found = jump(numbers, self.judged)
        if found is None:
            return []
        at, number = found
        headline = "'{name}' jumps and stays up: its mean is {number} times that of the steps before"
        remedy = "a lower learning rate, warm-up, gradient clipping, the data of these steps, or the sign of the loss"
        return alert("rising_loss", [Sighting(int(steps[at]), name, number)], "logged", headline, remedy)

    def _oscillating(self, name: str, steps: Steps, numbers: Matrix) -> list[Alert]:
        # The first twelve losses are the reference, so no window that contains one of them is compared with it.
        begin = max(self.judged - WINDOW + 1, WINDOW)
        if len(numbers) < begin + WINDOW:
            return []
        windows = numpy.lib.stride_tricks.sliding_window_view(numbers[begin:], WINDOW)
        first_of_all = numbers[:WINDOW]
        differences = numpy.diff(windows, axis=1)
        turns = (differences[:, 1:] * differences[:, :-1] < 0).mean(axis=1)
        first, second = (half.mean(axis=1) for half in numpy.split(windows, 2, axis=1))
        with numpy.errstate(all="ignore"):
            swing = abs(differences).mean(axis=1) / abs(windows).mean(axis=1)
        error = SURER * numpy.sqrt((windows.var(axis=1, ddof=1) + first_of_all.var(ddof=1)) / WINDOW)
        is_high = (second >= FALLING * first) & (windows.mean(axis=1) > first_of_all.mean() + error)
        held = (turns >= TURNS) & (swing > SWING) & is_high & (windows > 0).all(axis=1)  # around 0 every loss swings
        if not held.any():
            return []
        at = int(held.argmax())
        seen = [Sighting(int(steps[begin + at + WINDOW - 1]), name, float(swing[at]))]
        headline = "'{name}' oscillates: from step to step by {number} of its mean"
        remedy = "a lower learning rate, larger batches, or gradient clipping"
        return alert("oscillating_loss", seen, "logged", headline, remedy)

    def _flat(self, name: str, steps: Steps, numbers: Matrix) -> list[Alert]:
        while self.next_end is not None and self.next_end <= len(numbers):
            end = self.next_end
            fall, error = _fall(numbers[:end])
            if fall - error > FLAT:
                self.next_end = None
                return []
            if fall + error < FLAT and end >= LEAST and not _falls_yet(numbers[:end]):
                seen = [Sighting(int(steps[end - 1]), name, fall + error)]
                headline = "'{name}' is flat: it has fallen by less than {number} of it"
                remedy = "whether labels belong to inputs, whether the loss depends on the model, and the learning rate"
                return alert("flat_loss", seen, "logged", headline, remedy)
            later = end + 1 + end // MORE
            self.next_end = LEAST if end < LEAST < later else later
        return []


def _falls_yet(numbers: Matrix) -> bool:
    # Does the second half fall so fast that the loss would fall enough in as many further steps? If so, it is leaving a
    # plateau.
    fall, error = _fall(numbers[len(numbers) // 2 :])  # the fall from the third quarter of all steps to the last one
    return 4 * (fall - error) > FLAT


def _fall(numbers: Matrix) -> tuple[float, float]:
    # The relative fall from the first half to the second, and its uncertainty.
    first, second = numbers[: len(numbers) // 2], numbers[len(numbers) // 2 :]
    error = SURE * numpy.sqrt(first.var(ddof=1) / len(first) + second.var(ddof=1) / len(second))
    scale = abs(first.mean()) or 1.0
    return float((first.mean() - second.mean()) / scale), float(error / scale)
