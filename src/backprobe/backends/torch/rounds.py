"""The rounds in which several optimizers step, and which of these optimizers ends a round."""

from __future__ import annotations

FEW, MORE = 8, 4
"""If one optimizer steps this often in a round, the others are no longer waited for: at least ``FEW`` times, and more
than ``MORE`` times as often as any optimizer in an earlier round.
"""


class Rounds:
    """Counts the steps of several optimizers in rounds. Each round ends with a step of the last optimizer. If the last
    one no longer steps, a round ends with the last of those that do.

    >>> rounds = Rounds(2)
    >>> [rounds.ends_with(at) for at in (0, 1, 0, 0, 1)]
    [False, True, False, False, True]
    >>> [rounds.ends_with(0) for _ in range(11)].index(True)
    8
    """

    def __init__(self, count: int) -> None:
        self.last, self.most = count - 1, 0  # the optimizer that ends a round; the most steps of one in a round so far
        self.steps: dict[int, int] = {}  # the number of steps of each optimizer in this round

    def ends_with(self, at: int) -> bool:
        """Count a step of the optimizer with this number. Returns whether the step ends the round."""
        steps = self.steps[at] = self.steps.get(at, 0) + 1
        is_alone = len(self.steps) == 1
        if at > self.last:
            self.last = at
            if is_alone:  # this step belongs to the previous round, which was ended too early
                return False
        is_given_up = at != self.last and steps >= max(FEW, MORE * self.most + 1)
        if is_given_up:
            self.last = max(one for one, count in self.steps.items() if count >= steps - 1)
        if at != self.last:
            return False
        if not is_given_up:
            self.most = max(self.most, *self.steps.values())
        self.steps.clear()
        return True
