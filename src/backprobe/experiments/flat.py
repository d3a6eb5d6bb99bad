"""Finds gradients that are 0 everywhere although the output changes, because of a step function or a lost derivative.

A single gradient of 0 proves little, because a unit may be inactive for one input. So the value is changed to several
other numbers. If its gradient is 0 each time and the output changes, the program provides no slope.
"""

from __future__ import annotations

from collections.abc import Collection

from backprobe.cuts.missing_edges import Dataflow
from backprobe.experiments.bridged import Bridged
from backprobe.experiments.moved import with_tried
from backprobe.experiments.runs import MOVES, Runs, full_names, of_name
from backprobe.explain.all_zero import is_zero
from backprobe.explain.present_gradient import explain_present
from backprobe.explain.text import say
from backprobe.findings.report import Finding
from backprobe.record.entries import GradStatus, Record
from backprobe.tracing.bridging import NamedBridges

FEWEST = 3
"""The smallest number of other points at which the program must have run."""


class Flat:
    """Finds which gradients of 0 are 0 at every point tried, and the lines where they become 0."""

    def __init__(self, runs: Runs, names: Collection[str]) -> None:
        self.runs, self.names = runs, names
        self.found: list[str] = []
        """Names for which a finding shows where the gradients become 0."""

    def findings(self) -> list[Finding]:
        """The causes of gradients that are zero at every point tried."""
        wide = self.runs.wide if self.names else None
        if wide is None:
            return []
        flow, found = Dataflow.of(wide), dict[object, Finding]()
        for name in self._flat(wide):
            entry = of_name(wide, name)
            assert entry is not None
            tried = say("flat_everywhere", name=repr(entry.name), times=self.ran)
            causes = [one for one in explain_present(flow, entry, self.runs.arrays).findings if one.source is not None]
            self.found += [entry.name] if causes else []
            for one in causes:
                if one.source not in found:
                    found[one.source] = with_tried(one, tried, *self._bridged(flow, one, wide.names[name]))
        return [*found.values()]

    def _bridged(self, flow: Dataflow, one: Finding, at: int) -> list[str]:
        # Return a sentence if the gradient arrives when the result of the line is connected to its input again.
        if len(one.chain) < 2:
            return []
        source, target = (flow.position[name] for name in one.chain[-2:])
        bridged = Bridged(flow, self.runs, wide=True)
        return [bridged.said({at})] if bridged.arrives({target: [source]}, {at}) else []

    def _flat(self, wide: Record) -> list[str]:
        # The names whose gradients stay 0 while an output changes; none if fewer than ``FEWEST`` runs succeed.
        outputs = [full_names(wide)[at] for at in wide.outputs]
        flat = [name for name in self.names if self._is_zero(wide, name)]
        self.ran, is_moved = 0, False
        for move in MOVES.values() if flat else ():
            other = self.runs(NamedBridges(moves=dict.fromkeys(flat, move)), wide=True)
            if other is None:
                continue
            self.ran += 1
            flat = [name for name in flat if self._is_zero(other, name)]
            is_moved |= any(not self.runs.is_same(of_name(wide, name), of_name(other, name)) for name in outputs)
        return flat if is_moved and self.ran >= FEWEST else []

    def _is_zero(self, record: Record, name: str) -> bool:
        entry = of_name(record, name)
        return entry is not None and entry.status is GradStatus.OK and is_zero(self.runs.arrays, entry.held_grad)
