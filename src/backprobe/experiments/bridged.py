"""Bridges cuts: if the gradient then arrives, the bridged line was what blocked it.

This works for any operation on the line: see ``backprobe/tracing/bridging.py``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from backprobe.cuts.missing_edges import Cut, Dataflow
from backprobe.experiments.runs import MOVES, Runs, full_names, of_name
from backprobe.explain.all_zero import is_zero
from backprobe.explain.cut_findings import line_of_cut
from backprobe.explain.text import say
from backprobe.findings.phrasing import listed, plural, quoted, short
from backprobe.record.entries import GradStatus, Record
from backprobe.record.graph import reached
from backprobe.tracing.bridging import NamedBridges

MOST_TRIES = 4
"""The most runs for one line. In each further run, later values replace those that could not be bridged."""

NAMED = 3
"""If more gradients than this arrive, only their number is given."""


class Bridged:
    """Tries whether missing gradients of a record arrive when cuts are bridged."""

    def __init__(self, flow: Dataflow, runs: Runs, *, wide: bool = False) -> None:
        self.flow, self.runs, self.wide = flow, runs, wide
        self.names = full_names(flow.record)

    def tried(self, own: Sequence[Cut], cuts: Sequence[Cut], lost: set[int]) -> Sequence[str]:
        """Return a sentence on the cuts of one line, if an experiment shows what they block; otherwise nothing.

        If bridging that line alone brings no gradient, the cuts behind it are bridged too.
        """
        lost = self.flow.before([cut.mention.source for cut in own]) & lost
        if arrived := self.arrived(own, lost):
            return [self._still(own) or self.said(arrived)]
        after = {each for cut in own for each in self.flow.after(cut.target)}
        behind = [cut for cut in cuts if cut.mention.source in after and cut not in own]
        lines = [line for cut in behind if (line := line_of_cut(self.flow, cut)) is not None]
        if lines and (arrived := self.arrived([*own, *behind], lost)):
            at = listed([*dict.fromkeys(map(short, lines))])
            return [say("bridged.several", gradients=self._gradients(arrived), lines=at)]
        return ()

    def said(self, arrived: Collection[int]) -> str:
        """The sentence that these gradients arrive if one line is bridged."""
        return say("bridged", gradients=self._gradients(arrived))

    def arrives(self, history: Mapping[int, Collection[int]], lost: Collection[int]) -> bool:
        """Does one of the lost gradients arrive if each value that is a key of ``history`` gets the histories of the
        values listed there?
        """
        bridges = NamedBridges(
            {self.names[at]: [self.names[each] for each in others] for at, others in history.items()}
        )
        record = self.runs(bridges, wide=self.wide)
        return record is not None and any(self._is_there(record, at) for at in lost)

    def _still(self, cuts: Sequence[Cut]) -> str:
        # Return a sentence if the result of a line stayed the same each time when its input was changed; else "".
        cut = cuts[0]
        source, target = self.names[cut.mention.source], self.names[cut.target]
        before = self.flow.entries[cut.target]
        if self.runs.numbers(before) is None:
            return ""
        for move in MOVES.values():
            after = of_name(self.runs(NamedBridges(moves={source: move}), wide=self.wide), target)
            if after is None or not self.runs.is_same(before, after):
                return ""
        value = repr(self.flow.entries[cut.mention.source].name)
        return say("stays", value=value, target=repr(self.flow.entries[cut.target].name), times=len(MOVES))

    def arrived(self, cuts: Collection[Cut], lost: Collection[int]) -> set[int]:
        """Return the lost gradients that arrive, and are not 0, when these cuts are bridged.

        Some values cannot be bridged, such as numbers, or tensors that are written in place. Values computed from them
        are bridged instead.
        """
        unfit = set[str]()
        for _ in range(MOST_TRIES if lost else 0):
            bridges = NamedBridges(self._bridged(cuts, unfit))
            record = self.runs(bridges, wide=self.wide)
            if record is not None and (arrived := {at for at in lost if self._is_there(record, at)}):
                return arrived
            new = bridges.from_to.keys() - (bridges.bridged if record is not None else ())
            if not new:
                break
            unfit |= new
        return set()

    def _is_there(self, record: Record, at: int) -> bool:
        entry = of_name(record, self.names[at])
        return entry is not None and entry.status is GradStatus.OK and not is_zero(self.runs.arrays, entry.held_grad)

    def _bridged(self, cuts: Iterable[Cut], unfit: Collection[str]) -> dict[str, list[str]]:
        # For each value to bridge, by its full name, return the names of the values that its gradient should reach.
        found: dict[str, list[str]] = {}
        for cut in cuts:
            for target in self._fit(cut.target, unfit):
                found.setdefault(self.names[target], []).append(self.names[cut.mention.source])
            for source, target in self._without_gradients(cut.target):
                found.setdefault(self.names[target], []).append(self.names[source])
        return found

    def _fit(self, at: int, unfit: Collection[str]) -> Collection[int]:
        # Return a value, or if it cannot be bridged, the nearest values computed from it without another cut.
        found, pending, seen = list[int](), [at], {at}
        while pending:
            source = pending.pop()
            if self.names[source] not in unfit:
                found.append(source)
                continue
            cut_off = {cut.target for cut in self.flow.among({source, *self.flow.consumers[source]})}
            for target in self.flow.consumers[source]:
                if target not in seen and target not in cut_off:
                    seen.add(target)
                    pending.append(target)
        return found

    def _without_gradients(self, at: int) -> Iterator[tuple[int, int]]:
        # Yield values that were computed from a value while gradients were disabled, each with its direct input.
        off = {each for each, entry in enumerate(self.flow.entries) if entry.status is GradStatus.NO_GRAD}
        for source in sorted(reached({at} & off, lambda each: off.intersection(self.flow.consumers[each]))):
            yield from ((source, target) for target in self.flow.consumers[source] if target in off)

    def _gradients(self, positions: Collection[int]) -> str:
        names = [self.flow.entries[at].name for at in sorted(positions)]
        if len(names) > NAMED:
            return f"{plural(len(names), 'gradient')} arrive"
        return f"the gradient{'s' * (len(names) > 1)} of {quoted(names)} arrive{'s' * (len(names) == 1)}"
