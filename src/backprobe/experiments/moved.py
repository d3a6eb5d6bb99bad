"""Finds where a gradient is lost by changing a value: at the first later value that changes, but has no edge from it.

This works for any operation. The place is reported only if a bridge over it brings the gradient.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from backprobe.cuts.missing_edges import Dataflow
from backprobe.experiments.bridged import Bridged
from backprobe.experiments.runs import MOVES, Runs, full_names, of_name
from backprobe.explain.about_entries import about
from backprobe.explain.cut_findings import cut_findings, line_of_cut
from backprobe.explain.text import say
from backprobe.findings.report import Finding
from backprobe.record.entries import Entry, GradStatus
from backprobe.record.names import strip
from backprobe.record.source import Source, place_of
from backprobe.tracing.bridging import NamedBridges


class Moved:
    """Finds the places where the gradient of a value is lost, by running the program again."""

    def __init__(self, runs: Runs, full: str) -> None:
        self.runs, self.full = runs, full

    def findings(self) -> list[Finding]:
        """The proven causes of the missing gradient, with their lines if known."""
        if self.runs.wide is None or of_name(self.runs.wide, self.full) is None:
            return []
        self.flow = Dataflow.of(self.runs.wide)
        self.names, self.at = full_names(self.runs.wide), self.runs.wide.names[self.full]
        return self._seen() or [*self._hidden()]

    def _seen(self) -> list[Finding]:
        # Return findings on cuts that are visible if all names are recorded, as in the wide record.
        cuts, bridged = self.flow.cuts(self.at), Bridged(self.flow, self.runs, wide=True)
        found: dict[object, Finding] = {}
        for cut, one in zip(cuts, cut_findings(self.flow, self.at, cuts), strict=True):
            line = line_of_cut(self.flow, cut)
            place = place_of(line)
            own = [each for each in cuts if line_of_cut(self.flow, each) == line]
            if place not in found and (tried := bridged.tried(own, cuts, {self.at})):
                found[place] = with_tried(one, *tried)
        return [*found.values()]

    def _hidden(self) -> Iterator[Finding]:
        # Yield a finding for the first value that changes with the moved value although no edge leads to it. It counts
        # only if a bridge to it brings the gradient.
        bridged = Bridged(self.flow, self.runs, wide=True)
        for source, target in self._frontier(self._changed()):
            if bridged.arrives({target: [source]}, {self.at}):
                yield self._finding(source, target)
                return

    def _changed(self) -> set[int]:
        # Return the values that change with the moved value, except values that differ between any two runs, such as an
        # address or the time.
        changed = {at for move in MOVES.values() for at in self._other(NamedBridges(moves={self.full: move}))}
        return changed - self._other(NamedBridges()) if changed else changed

    def _other(self, bridges: NamedBridges) -> set[int]:
        # The values that differ in another run; none if that run failed, or bound a name a different number of times.
        record = self.runs(bridges, wide=True)
        own = Counter(map(strip, self.flow.record.names))
        if record is None or own != Counter(name for name in map(strip, record.names) if name in own):
            return set()
        return {
            at for at, name in self.names.items() if not self.runs.is_same(self.flow.entries[at], of_name(record, name))
        }

    def _frontier(self, changed: set[int]) -> list[tuple[int, int]]:
        # Return the first changed values that no edges through changed values connect to the moved value, each with the
        # last connected value before it.
        live, dead, found = [self.at], set[int](), []
        for at in sorted(changed - {self.at}):
            if not {*self.flow.edges[at]}.isdisjoint(live):
                live.append(at)
                continue
            mentioned = [mention.source for mention in self.flow.mentions[at]]
            if dead.isdisjoint(mentioned):
                nearest = [each for each in mentioned if each in live] or live
                found.append((nearest[-1], at))
            dead.add(at)
        return found

    def _finding(self, source: int, target: int) -> Finding:
        value, entry = self.flow.entries[source], self.flow.entries[target]
        chain = (self.flow.entries[self.at].name, *([value.name] if source != self.at else ()), entry.name)
        is_mentioned = any(mention.source == source for mention in self.flow.mentions[target])
        line = None if is_mentioned else self._given_in(source, target)
        facts = [say("used_last", value=repr(value.name), text=f"`{line.text.strip()}`")] if line else ()
        one = about(
            self.flow,
            self._outcome(value, entry),
            entry,
            entry.source if is_mentioned else line,
            chain=chain,
            value=repr(value.name),
            facts=facts,
        )
        return with_tried(one, say("moved", value=repr(value.name), target=repr(entry.name)))

    def _given_in(self, source: int, target: int) -> Source | None:
        # The last line between the two that read the source; None if there is none.
        name, entries = self.flow.entries[source].name, self.flow.entries[source + 1 : target]
        given = [one for one in entries if any(read.name == name for read in one.reads)]
        return given[-1].source if given else None

    def _outcome(self, source: Entry, target: Entry) -> str:
        # The kind of cut, from the kind of value that the line returned.
        if target.status is GradStatus.NOT_TENSOR:
            return "left_framework"
        if target.status is GradStatus.NOT_FLOAT:
            return "discrete"
        return "same_numbers" if self.runs.is_same(source, target) else "new_numbers"


def with_tried(finding: Finding, *sentences: str) -> Finding:
    """The finding with added sentences about experiments."""
    return replace(finding, tried=(*finding.tried, *sentences))
