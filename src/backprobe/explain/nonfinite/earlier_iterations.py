"""Keeps what earlier iterations left: NaN and Inf that had no effect yet, and growing losses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy

from backprobe.backends.discover import load_arrays
from backprobe.explain.nonfinite import diverging
from backprobe.explain.nonfinite.evidence import Evidence
from backprobe.explain.nonfinite.forward_births import ForwardPass
from backprobe.explain.nonfinite.text import at_line, heading, say
from backprobe.findings.report import Finding, Report
from backprobe.record.entries import Record
from backprobe.record.graph import Graph
from backprobe.record.names import strip


class EarlierIterations:
    """Variables in which earlier iterations left NaN or Inf, each with its origin and numbers.

    The losses of earlier iterations are kept as well.
    """

    def __init__(self) -> None:
        self._left: dict[str, tuple[Finding, Any]] = {}
        self._losses: dict[str, list[float]] = {}

    def keep_losses(self, record: Record) -> None:
        """Keep the losses of an iteration."""
        for name, numbers in diverging.losses(_evidence(record)).items():
            self._losses.setdefault(name, []).extend(numbers)

    def keep(self, record: Record) -> None:
        """Keep the losses of an iteration in which NaN or Inf reached no output, and the variables with NaN or Inf."""
        self.keep_losses(record)
        known = _evidence(record)
        forward = ForwardPass(known)
        last = {strip(name): at for name, at in sorted(record.names.items(), key=lambda pair: pair[1])}
        for (at, _), birth in forward.births(forward.origins, {}):
            spread = forward.spread(at)
            self._left |= {name: (birth, known.numbers(one)) for name, one in last.items() if one in spread}

    def explained(self, report: Report, record: Record) -> Report:
        """The report on a later iteration, with bad inputs traced to their origin in an earlier iteration."""
        if report.ok:
            return report
        report = replace(report, findings=tuple(diverging.explained(report.findings, self._losses, record.framework)))
        return self._carried(report, record) if self._left else report

    def _carried(self, report: Report, record: Record) -> Report:
        known, positions = _evidence(record), Graph.of(record).positions
        findings = [self._born(one, known, positions.get(one.name)) for one in report.findings]
        if findings == list(report.findings):
            return report
        places = [one for one in findings if one.kind not in ("propagated", "healed")]
        return replace(report, heading=heading(places), findings=tuple(findings))

    def _born(self, found: Finding, known: Evidence, at: int | None) -> Finding:
        if found.kind == "unknown":
            return replace(found, facts=(*found.facts, *self._read(found)))
        if at is None or found.kind != "came_in" or found.source is not None:
            return found
        names = [strip(name) for name, place in known.record.names.items() if place == at]
        birth, numbers = next((self._left[name] for name in names if name in self._left), (None, None))
        if birth is None or not _are_equal(numbers, known.numbers(at)):
            return found
        fact = say("carried", name=repr(found.name))
        return replace(birth, facts=(*birth.facts, fact), chain=found.chain)

    def _read(self, found: Finding) -> Iterator[str]:
        # Yield the origin, in an earlier iteration, of a variable that the line reads but this iteration did not
        # record, such as an attribute.
        names = found.fields.get("lost", "").split(", ")
        for left, (birth, _) in self._left.items():
            if left.rpartition(":")[2] in names:
                yield say("left", name=left.rpartition(":")[2], birth=birth.headline, line=at_line(birth.source))


def _evidence(record: Record) -> Evidence:
    return Evidence(record, load_arrays(record.backend))


def _are_equal(one: Any, other: Any) -> bool:
    return one is not None and other is not None and numpy.array_equal(one, other, equal_nan=True)
