"""NaN and Inf that an optimizer wrote into parameters: from finite gradients, or from ones that were not finite."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from backprobe.explain.nonfinite.states import RECORDED, WORDS
from backprobe.explain.nonfinite.text import MOST_LISTED, some
from backprobe.findings.phrasing import place
from backprobe.findings.report import Finding
from backprobe.record.entries import Record
from backprobe.record.graph import Graph
from backprobe.record.nonfinite import Update
from backprobe.record.source import Source

FORWARD = ("born", "came_in", "unknown")
AFTERWARDS = ("came_in", "unknown")  # what may be so because of a step before
GIVEN = {
    "finite": ("its gradient is finite", "their gradients are finite"),
    "inf": ("its gradient holds Inf", "their gradients hold Inf"),
    "nan": ("its gradient holds NaN", "their gradients hold NaN"),
    "none": ("it has no gradient", "they have no gradients"),
}
NO_LINE = "a statement after backward(), such as a step of an optimizer"
SEE_LINE = "with bp.probe(nonfinite=True) as rec: around the same lines: it records which of them writes to parameters"


def with_updates(births: Sequence[Finding], record: Record) -> list[Finding]:
    """The births and the bad updates of optimizers, each before what was computed later.

    An update from a bad gradient is not a birth, unless nothing else is found. A line whose expression made something
    bad is reported once; a line that writes unseen, such as ``optimizer.step()``, is reported by what it wrote.
    """
    positions = Graph.of(record).positions
    certain = [one for one in births if one.kind == "born" and one.source is not None and one.source.expression]
    updates = [one for one in record.updates if not _stands_at(one.source, [birth.source for birth in certain])]
    lines = [update.source for update in updates]
    found = [one for one in births if one in certain or one.kind not in FORWARD or not _stands_at(one.source, lines)]
    for update in reversed(updates):
        after = len(record.entries) if update.after is None else update.after
        later = [
            at for at, finding in enumerate(found)
            if finding.kind in FORWARD and positions.get(finding.name, -1) > after
        ]  # fmt: skip
        for at in later:
            if found[at].kind in AFTERWARDS:
                found[at] = replace(found[at], facts=(*found[at].facts, _before(update)))
        if not _came_with_gradient(update) or not found:
            found.insert(min(later, default=len(found)), _finding(update))
    return found


def spread(record: Record, births: Sequence[Finding]) -> Iterator[Finding]:
    """The updates from gradients that were not finite, which are not births."""
    for finding in map(_finding, filter(_came_with_gradient, record.updates)):
        if finding not in births:
            yield replace(finding, kind="propagated")


def _stands_at(source: Source | None, lines: Sequence[Source | None]) -> bool:
    at = {(line.file, line.line) for line in lines if line is not None}
    return source is not None and (source.file, source.line) in at


def _came_with_gradient(update: Update) -> bool:
    return update.gradient in ("inf", "nan")


def _finding(update: Update) -> Finding:
    given = GIVEN[update.gradient][update.size > 1]
    headline = f"{WORDS[RECORDED[update.made]]} is written into {_parameters(update)} at {_line(update)}: {given}"
    kind = "unknown" if update.gradient == "none" else "came_in" if _came_with_gradient(update) else "born"
    facts = (f"the optimizer: {update.optimizer}",) if update.optimizer else ()
    name = update.parameters[0] if update.parameters else ""
    return Finding(kind, name, headline, update.source, facts, (), "" if update.source else SEE_LINE)


def _parameters(update: Update) -> str:
    shown = some(update.parameters) if update.parameters else ""
    more = update.size - min(len(update.parameters), MOST_LISTED)
    if not more:
        return shown
    return f"{shown} and {more} more" if shown else f"{more} parameter{'s' * (more > 1)}"


def _line(update: Update) -> str:
    return NO_LINE if update.source is None else f"`{update.source.text}`"


def _before(update: Update) -> str:
    where = "" if update.source is None else f" ({place(update.source.file, update.source.line)})"
    word = WORDS[RECORDED[update.made]]
    return f"{word} had been written into {_parameters(update)} before, at {_line(update)}{where}"
