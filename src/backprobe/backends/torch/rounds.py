"""The rounds in which several optimizers step, and which of these optimizers ends a round."""

from __future__ import annotations

FEW, MORE = 8, 4
"""When to stop waiting for the other optimizers: one optimizer has made at least ``FEW`` steps in this round, and more
than ``MORE`` times as many as any optimizer made in an earlier round. In the first round only ``FEW`` counts, because
there is no earlier round that shows how long a round is.
"""


class Rounds:
    """Counts the steps of several optimizers in rounds. Each round ends with a step of the last optimizer. If the last
    one no longer steps, a round ends with the last of those that do.

    >>> rounds = Rounds(2)
    >>> [rounds.ends_with(at) for at in (0, 1, 0, 0, 1)]
    [False, True, False, False, True]
    >>> [rounds.ends_with(0) for _ in range(11)].index(True)
    8

    If one optimizer steps ten times before the other, then only the first of these rounds is split.

    >>> rounds = Rounds(2)
    >>> [sum(rounds.ends_with(at) for at in (*(0,) * 10, 1)) for _ in range(4)]
    [3, 1, 1, 1]

    One that is given later, for the parameters of another one, ends rounds from its first step on.

    >>> rounds = Rounds(1)
    >>> rounds.replacing.add(1)
    >>> [rounds.ends_with(at) for at in (0, 0, 1, 1)]
    [True, True, True, True]
    """

    def __init__(self, count: int) -> None:
        self.last, self.most = count - 1, 0  # the one that ends a round; the most steps of one in a round so far
        self.steps: dict[int, int] = {}  # of each optimizer in this round
        self.latest = self.in_a_row = 0  # the one that stepped last, and how many times in a row
        self.replacing: set[int] = set()  # those that were given later, with parameters that an earlier one has
        self.since: dict[int, int] = {}  # the steps of each one since an earlier one stepped right after a later one

    def ends_with(self, at: int) -> bool:
        """Count a step of the optimizer with this number. Does it end the round?"""
        self._compare_with_earlier(at)
        steps = self.steps[at] = self.steps.get(at, 0) + 1
        is_alone = len(self.steps) == 1
        if at > self.last:
            self.last = at
            if (
                is_alone and at not in self.replacing
            ):  # this step belongs to the previous round, which was ended too early
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

    def _compare_with_earlier(self, at: int) -> None:
        # A later optimizer that steps once, between steps of an earlier one, ends a round of the program, however many
        # steps the earlier one made. Where both step many times in a row, they are trained by turns.
        if at < self.latest:
            if self.in_a_row == 1:
                self.most = max(self.most, self.since.get(at, 0))
            self.since.clear()
        self.in_a_row = self.in_a_row + 1 if at == self.latest else 1
        self.latest = at
        self.since[at] = self.since.get(at, 0) + 1
