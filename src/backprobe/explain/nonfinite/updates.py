"""Reports NaN and Inf that an optimizer wrote into parameters, whether the gradients were finite or not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from backprobe.explain.nonfinite.states import RECORDED, WORDS
from backprobe.explain.nonfinite.text import MOST, at_line, finding, say
from backprobe.findings.phrasing import plural, quoted
from backprobe.findings.report import Finding
from backprobe.record.entries import Record
from backprobe.record.graph import Graph
from backprobe.record.nonfinite import BEFORE, Update
from backprobe.record.source import Source, expression_of, place_of

FORWARD = ("born", "came_in", "unknown")
AFTERWARDS = ("came_in", "unknown")  # kinds of findings that an earlier step may have caused


def with_updates(births: Sequence[Finding], record: Record) -> list[Finding]:
    """Return the births and the bad updates by optimizers, in the order of time.

    An update with a bad gradient counts as a birth only if nothing is found before it. A line that both computes a bad
    value and writes it is reported once. A line such as ``optimizer.step()``, which contains no expression, is reported
    by what it wrote.
    """
    positions = Graph.of(record).positions
    updates, found = _each_line_once(births, record)
    first = [one for one in updates[:1] if not any(_is_before(birth, one, positions) for birth in found)]
    for update in reversed(updates):
        after = len(record.entries) if update.after is None else update.after
        later = _later(found, after, positions)
        for at in later:
            if found[at].kind in AFTERWARDS:
                found[at] = replace(found[at], facts=(*found[at].facts, _before(update)), remedy="")
        if not _came_with_gradient(update) or update in first:
            found.insert(min(later, default=len(found)), _finding(update))
    return found


def _each_line_once(births: Sequence[Finding], record: Record) -> tuple[list[Update], list[Finding]]:
    # Return births and updates; if both are on one line, only the one with more information.
    certain = [one for one in births if one.kind == "born" and expression_of(one.source)]
    written = [one for one in record.updates if one.gradient != BEFORE]
    updates = [one for one in written if not _stands_at(one.source, [birth.source for birth in certain])]
    lines = [update.source for update in updates]
    found = [one for one in births if one in certain or one.kind not in FORWARD or not _stands_at(one.source, lines)]
    return updates, found


def spread(record: Record, births: Sequence[Finding]) -> Iterator[Finding]:
    """Yield findings on the updates with gradients that were not finite, as consequences, unless they are births."""
    for found in map(_finding, filter(_came_with_gradient, record.updates)):
        if found not in births:
            yield replace(found, kind="propagated")


def _later(found: Sequence[Finding], after: int, positions: Mapping[str, int]) -> list[int]:
    # The positions of findings about values that were computed after an entry in a forward pass.
    return [at for at, one in enumerate(found) if one.kind in FORWARD and positions.get(one.name, -1) > after]


def _is_before(birth: Finding, update: Update, positions: Mapping[str, int]) -> bool:
    # Did the birth happen before the update? Yes if the time of one of them is unknown.
    return update.after is None or positions.get(birth.name, 0) <= update.after


def _stands_at(source: Source | None, lines: Sequence[Source | None]) -> bool:
    return source is not None and place_of(source) in map(place_of, lines)


def _came_with_gradient(update: Update) -> bool:
    return update.gradient in ("inf", "nan")


def _finding(update: Update) -> Finding:
    facts = [say("optimizer", optimizer=update.optimizer)] if update.optimizer else []
    word, parameters, line = _said(update)
    return finding(
        f"written_{update.gradient}",
        next(iter(update.parameters), ""),
        update.source,
        facts=facts,
        remedy="" if update.source else say("see_lines"),
        word=word,
        parameters=parameters,
        line=line,
    )


def _said(update: Update) -> tuple[str, str, str]:
    # Describe an update: what was written, into which parameters, and by which line.
    shown = quoted(update.parameters[:MOST])
    more = update.size - min(len(update.parameters), MOST)
    parameters = say("and_more", names=shown, more=more) if shown and more else shown or plural(more, "parameter")
    line = say("unseen_line") if update.source is None else f"`{update.source.text}`"
    return WORDS[RECORDED[update.made]], parameters, line


def _before(update: Update) -> str:
    word, parameters, line = _said(update)
    return say("written_before", word=word, parameters=parameters, line=line + at_line(update.source))
