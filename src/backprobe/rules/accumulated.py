"""Gradients that are never cleared, so that each step adds its own gradients to those of the step before.

The watch stores this as a fact for each step: ``.grad`` was unchanged since the end of the step before.
"""

from __future__ import annotations

from backprobe.rules.alert import Sighting, alert
from backprobe.rules.window import OneAlert, Window, first_of, lasting

LASTING = 3  # gradients must stay uncleared for this number of successive steps
HEADLINE = "gradients add up from step to step: those of {number} parameters are not cleared"
REMEDY = "optimizer.zero_grad() before each backward()"


class Accumulated(OneAlert):
    """Finds gradients that are not cleared. Needs only the count that is stored with each step."""

    def look(self, window: Window) -> None:
        at = first_of(window, lasting(window.uncleared > 0, LASTING))
        if at is not None and not self.found:
            seen = [Sighting(int(window.steps[at]), "", float(window.uncleared[at]))]
            self.found = alert("accumulated", seen, "uncleared", HEADLINE, REMEDY)
