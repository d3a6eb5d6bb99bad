"""The size of updates, relative to the weights that they change."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy

from backprobe.rules.alert import Alert, Sighting, alert
from backprobe.rules.correlation import surely
from backprobe.rules.moved import at_least
from backprobe.rules.parameters import is_bias
from backprobe.rules.rule import RULES
from backprobe.rules.window import Matrix, RunRows, Steps, Table, Window, first_of, lasting

LARGE, SMALL, PULL = (RULES[kind].threshold for kind in ("large_updates", "small_updates", "shrinking_weights"))
LASTING, WAIT = 3, 20  # in steps: how long updates must be too large, and when small updates are tested first
EARLY, MOVED, RISEN = 10, 0.1, 4  # the first steps, what they must move of the weights, and how far the loss must rise
MOST = 1e-3  # the size of a usual update, relative to the weights
# Growth from one quarter of the steps to the next: 1.4 in a linear warm-up, 1.16 with momentum 0.9 after 20 steps.
GROWS = 1.25
SHRUNK = 5  # weights must shrink for this number of successive steps
TURNED, ALMOST = 0.3, 0.9


class UpdatesRule:
    """Finds updates that are too large or too small, and weights that only shrink.

    Without ``"update"`` in ``what=`` only updates that are too large are found, by how far weights have moved at least.
    """

    def __init__(self, rows: RunRows) -> None:
        self.share = numpy.empty(0)  # the update relative to the weights, in each step
        self.steps: Steps = numpy.empty(0, numpy.int64)
        self.names: list[str] = []  # the most changed parameter of each step
        self.found: dict[str, list[Alert]] = {}
        self.next_end: int | None = WAIT  # the number of steps at which small updates are tested next
        self.shrinks = True  # have the weights shrunk in each step so far?

    def look(self, window: Window) -> None:
        updates = window.updates
        if window.fresh == len(window.steps):
            return
        if not updates:
            self._large(window, at_least(window, window.parameters), window.parameters.names, window.parameters)
            return
        known = set(window.parameters.names)
        weights = window.parameters.part([name for name in updates.names if name in known])
        moved = window.wide(numpy.where(updates.is_nonfinite, numpy.nan, updates.column("squares")))
        self._large(window, moved, updates.names, weights)
        share = ratio(window, moved, weights)
        if self.next_end is not None:
            self.share = numpy.append(self.share, share[window.fresh :])
            self.steps = numpy.append(self.steps, window.steps[window.fresh :])
            most = window.wide(updates["squares"])[:, window.fresh :]
            self.names += [updates.names[at] for at in numpy.nan_to_num(most, nan=-1.0).argmax(axis=0).tolist()]
            self._small()
        if self.shrinks:
            self._shrinking(window)

    def _large(self, window: Window, moved: Matrix, names: list[str], weights: Table) -> None:
        # ``moved`` has the sum of squares of each update, or at least of what is known of it.
        share = ratio(window, moved, weights)
        if "large" in self.found or not (share > MOVED).any():
            return
        usual, loss = _of_usual(window, moved, weights), window.loss_by_step
        fell = numpy.append(False, loss[1:] < loss[:-1])  # steps that lower the loss are not too large
        held = lasting((share > LARGE) & (usual > LARGE), LASTING) & ~lasting(fell, LASTING - 1)
        at = first_of(window, held)
        much = numpy.where((share > MOVED) & (usual > LARGE), share, 0.0)
        begun = self._begun(window, much, moved, names, loss)
        if at is not None and (begun is None or int(window.steps[at]) <= begun.step):
            begun = Sighting(int(window.steps[at]), _most(moved[:, at], names), float(share[at]))
        if begun is not None:
            self.found["large"] = _said(begun, "large", "" if window.updates else "at least ")

    def _begun(self, window: Window, much: Matrix, moved: Matrix, names: list[str], loss: Matrix) -> Sighting | None:
        # Do the first steps move the weights far, and is the loss from then on above what it was before them?
        if window.first:
            return None
        has_moved = numpy.append(False, numpy.maximum.accumulate(much)[:-1] > 0)
        risen = lasting(has_moved & (loss > RISEN * loss[0]) & (loss[0] > 0), LASTING)
        at = first_of(window, risen & (numpy.arange(len(risen)) < EARLY))
        if at is None:
            return None
        most = int(much[:at].argmax())
        return Sighting(int(window.steps[at]), _most(moved[:, most], names), float(much[most]))

    def _small(self) -> None:
        # Test whether updates are too small. Updates that still grow, as in a warm-up, are tested again later.
        while self.next_end is not None and self.next_end <= len(self.share):
            end = self.next_end
            share = self.share[:end]
            third, last = share[end // 2 : end * 3 // 4], share[end * 3 // 4 :]
            if not numpy.isfinite(share).all() or numpy.median(share) >= SMALL or share.max() > MOST:
                self.next_end = None
            elif last.mean() < GROWS * third.mean() or not third.any():
                self.next_end = None
                at = end - 1
                seen = Sighting(int(self.steps[at]), self.names[at], float(share[at]))
                self.found["small"] = _said(seen, "small")
            else:
                self.next_end = 2 * end

    def _shrinking(self, window: Window) -> None:
        # Since the first step, do updates hardly do more than shrink all weights?
        known = set(window.parameters.names)
        large = [name for name in window.updates.names if "bias" not in name.rpartition(".")[2] and name in known]
        begin = max(window.fresh - SHRUNK, 0)
        if not large or len(window.steps) - begin < 2:
            return
        weights = window.parameters.part(large)
        after = window.wide(weights["squares"])[:, begin:]
        moved = window.wide(window.updates.part(large)["squares"])[:, begin + 1 :]
        # NumPy need not warn here. |w + u|² = |w|² + 2 w·u + |u|², and the rows hold |w + u|²
        with numpy.errstate(all="ignore"):
            inward = (after[:, :-1] + moved - after[:, 1:]) / 2
            cosine = inward / numpy.sqrt(after[:, :-1] * moved)
            pull = numpy.nansum(inward, axis=0) / numpy.nansum(after[:, :-1], axis=0)
        known_here = numpy.isfinite(cosine) & (numpy.diff(window.steps[begin:]) == 1)
        turned = known_here & (surely(cosine, weights.column("count").max(axis=1, keepdims=True)) > TURNED)
        is_all = turned.sum(axis=0) >= numpy.maximum(ALMOST * known_here.sum(axis=0), 1)
        held = lasting(numpy.logical_and.accumulate(is_all) & (pull > PULL), SHRUNK)
        held = numpy.append(numpy.zeros(begin + 1, bool), held)
        at = first_of(window, held)
        if at is not None:
            column = at - begin - 1
            name = large[int(numpy.nanargmax(inward[:, column]))]
            seen = [Sighting(int(window.steps[at]), name, float(pull[column]))]
            headline = "the weights shrink: each step takes {number} of them away, most of '{name}'"
            self.found["shrink"] = alert("shrinking_weights", seen, "update.rms", headline, "a lower weight decay")
        self.shrinks = bool(is_all.all()) and at is None

    def alerts(self) -> Iterator[Alert]:
        for how in ("large", "small", "shrink"):
            yield from self.found.get(how, ())


def ratio(window: Window, moved: Matrix, weights: Table) -> Matrix:
    """The norm of all updates divided by the norm of all weights, by step; NaN if an update is not finite."""
    with numpy.errstate(all="ignore"):
        share: Matrix = numpy.sqrt(moved.sum(axis=0) / weights.column("squares").sum(axis=0))
    return numpy.asarray(window.wide(share))


def _of_usual(window: Window, moved: Matrix, weights: Table) -> Matrix:
    # The norm of all updates, divided by the norm of weights that preserve the size of values: 1 for each unit (LeCun
    # 1998).
    #
    # The actual weights are no good measure if they begin near zero, as the factors of LoRA do: their updates are large
    # in comparison. A matrix without a bias has an unknown number of units, and is taken for a square one.
    counts = dict(zip(weights.names, weights.column("count").max(axis=1).tolist(), strict=True))
    units = 0.0
    for name, count in counts.items():
        module, dot, _ = name.rpartition(".")
        bias = next((counts[one] for one in (f"{module}{dot}bias", f"{module}{dot}b") if one in counts), 0.0)
        units += bias if 0 < bias < count else 0.0 if is_bias(name) or bias == count else math.sqrt(count)
    with numpy.errstate(all="ignore"):
        return numpy.asarray(window.wide(numpy.sqrt(moved.sum(axis=0) / units)))


def _most(moved: Matrix, names: list[str]) -> str:
    return names[int(numpy.nan_to_num(moved, nan=-1.0).argmax())]


def _said(seen: Sighting, how: str, least: str = "") -> list[Alert]:
    headline = f"the updates are {how}: {least}{{number}} of the weights in a step"
    remedy = f"a {'lower' if how == 'large' else 'higher'} learning rate"
    return alert(f"{how}_updates", [seen], "param.rms" if least else "update.ratio", headline, remedy)
