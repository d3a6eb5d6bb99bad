"""Runs one comparison: aligns, compares numbers, finds the pairs to blame, and makes the report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from backprobe.diff import text
from backprobe.diff.alignment import Alignment, align
from backprobe.diff.blame import Blame, blame
from backprobe.diff.comparison import Comparison, Given
from backprobe.diff.conventions import conventions_of
from backprobe.diff.divergences import findings_of
from backprobe.diff.floor import Measured, NoiseFloor
from backprobe.diff.layout import layouts_of
from backprobe.diff.matches import BY_NUMBERS, BY_PLACE
from backprobe.diff.orders import Orders, feature_maps
from backprobe.diff.pairs import NO_NUMBER, ONE_SIDED
from backprobe.diff.rename import renames_of
from backprobe.diff.report import DiffReport
from backprobe.diff.settling import Settled, names_of
from backprobe.diff.settling import settled as settle
from backprobe.diff.side import Side
from backprobe.errors import BadOption
from backprobe.findings.phrasing import listed, quoted
from backprobe.record.entries import GradStatus, Record
from backprobe.record.names import partition, strip

NO_TENSORS = (GradStatus.NOT_TENSOR, GradStatus.NOT_FLOAT)


@dataclass(frozen=True)
class ComparedRecords:
    """Two aligned recordings, and what their numbers decided about the alignment."""

    comparison: Comparison
    alignment: Alignment
    notes: Sequence[str]
    settled: Settled


def compared(
    first: Record,
    second: Record,
    rename: Mapping[str, str] | None,
    layout: Mapping[str, Any] | None,
    noise: NoiseFloor | None,
    *,
    convention: Any = None,
    given: Given | None = None,
    settled: Settled | None = None,
) -> ComparedRecords:
    """Align two recordings. Raises BadOption if they have nothing in common, and BadOption, BadName or NothingMatched
    for an option that does not fit them.

    ``given`` is set if the second program continued with values of the first recording. ``settled`` is then the result
    of an earlier comparison, in which the second program ran by itself.
    """
    a, b = Side(first), Side(second)
    renames = renames_of(rename, map(strip, first.names), map(strip, second.names))
    alignment = align(a, b, renames)
    if not alignment.matches:
        _refuse_unlike(a, b)
    factor, scaled = _factor(first, second)
    leaves = [[partition(name, ".")[-1] for name in _paths(side)] for side in (a, b)]
    conventions = conventions_of(convention, [first.framework, second.framework], leaves)
    orders = Orders(layouts_of(layout, first, second), conventions, feature_maps([first, second], conventions))
    comparison = Comparison(a, b, alignment.matches, orders, noise, factor, given)
    found = settle(comparison) if settled is None else settled
    if found:
        names = {match: names_of(comparison, match) for match in alignment.matches}
        alignment = alignment.without({match for match, name in names.items() if name in found.dropped})
        known = dict([*found.arrangements, *found.axes])
        orders.chosen |= {match: known[name] for match, name in names.items() if name in known}
        comparison = Comparison(a, b, alignment.matches, orders, noise, factor, given)
    return ComparedRecords(comparison, alignment, [*_partners(alignment, a, b, found), *_unlike(found), *scaled], found)


def _unlike(found: Settled) -> Iterator[str]:
    # Yield notes on pairs that are equal in another order of axes, that are different values, or that may be either.
    if found.axes:
        names = [repr(a) if a == b else f"{a!r} and {b!r}" for (a, b), _ in found.axes]
        said = "the same numbers in another shape or order of axes, and all that is computed from them agrees"
        yield f"{said}: {listed(names, text.MOST)}"
    if found.unlike:
        pairs = [f"{a!r} and {b!r}" for a, b in found.unlike]
        yield f"not one value, as all that is computed from them agrees: {listed(pairs, text.MOST)}"
    if found.undecided:
        names = [repr(a) if a == b else f"{a!r} and {b!r}" for a, b in found.undecided]
        yield f"these differ, and nothing computed from them shows if that is meant: {listed(names, text.MOST)}"


def _paths(side: Side) -> Iterator[str]:
    # Yield the names of parameters, also of leaves in arguments that contain parameters.
    return (strip(full) for full, at in side.record.names.items() if side.graph.is_given(at) and "." in full)


def report_of(one: ComparedRecords, notes: Sequence[str] = ()) -> DiffReport:
    """Compare all numbers, find the pairs to blame, and return the report."""
    comparison, alignment, found = one.comparison, one.alignment, blame(one.comparison)
    a, b, rows = comparison.a, comparison.b, comparison.rows
    forward, backward, amplifiers = findings_of(comparison, found)
    findings = (*filter(None, (forward, backward)), *amplifiers)
    unequal, uncompared = _statuses(comparison), list(_uncompared(comparison))
    said = (*unequal, *uncompared, *_rounded(comparison), *_unmeasured(comparison), *_unexplained(found))
    names = ["" if each is None else repr(each.name) for each in (forward, backward)]
    return DiffReport(
        text.heading(names[0], names[1], _counts(comparison, found)),
        findings,
        (*notes, *one.notes, *said),
        first=forward,
        first_backward=backward,
        amplifiers=tuple(amplifiers),
        rows=tuple(rows),
        only_a=tuple(a.entries[at].name for at in alignment.only_a),
        only_b=tuple(b.entries[at].name for at in alignment.only_b),
        record=b.record,
        backend=a.record.backend,
        complete=not (alignment.only_a or alignment.only_b or unequal or uncompared or comparison.factor is None),
    )


def _counts(comparison: Comparison, found: Blame) -> text.Counts:
    rows = comparison.rows
    outputs = [row for row in rows if row.match.a in comparison.a.record.outputs]
    agree = bool(outputs) and not any(row.value.kind or row.value.why for row in outputs) and not found.gradients
    gradients = sum(row.gradient.why == "" for row in rows)
    return text.Counts(
        sum(row.value.why == "" for row in rows),
        gradients,
        (len(found.values), len(found.gradients)),
        sum(row.value.is_rounding for row in rows),
        agree and gradients > 0,
    )


def _rounded(comparison: Comparison) -> Iterator[str]:
    rows = [row for row in comparison.rows if row.value.is_rounding]
    if rows:
        yield text.rounded(rows)


def _refuse_unlike(a: Side, b: Side) -> None:
    names = [quoted([entry.name for entry in side.entries], 4) or "nothing" for side in (a, b)]
    last = [side.entries[-1].name for side in (a, b) if side.entries]
    renamed = (
        f"bp.diff(a, b, rename={{{last[0]!r}: {last[1]!r}}}), if these belong together"
        if len(last) == 2
        else ("recordings of the same program")
    )
    raise BadOption(
        "these recordings have nothing in common",
        asked="bp.diff(a, b)",
        found=f"{names[0]} in the first, {names[1]} in the second",
        why="entries belong together by their names, by rename=, or by their shapes and what they are computed from",
        next=renamed,
    )


def _factor(a: Record, b: Record) -> tuple[float | None, list[str]]:
    # Return the factor for the second recording's gradients that undoes a loss scaled differently than in the first,
    # and notes about it. The factor is None if it is unknown, or if one recording has no gradients.
    has = [any(entry.status is GradStatus.OK for entry in record.entries) for record in (a, b)]
    if not all(has):
        return None, [_without_gradients(has, (a, b))]
    scales = [record.scales or (1.0,) for record in (a, b)]
    known = [each[0] for each in scales if len(each) == 1 and each[0]]
    if len(known) < 2:
        return None, ["the loss was multiplied by an unknown number before backward(): gradients were not compared"]
    if known[0] == known[1]:
        return 1.0, []
    return known[0] / known[1], [
        f"the loss was multiplied by {known[0]:g} in the first and by {known[1]:g} in the "
        f"second: gradients are compared without that"
    ]


def _without_gradients(has: list[bool], records: tuple[Record, Record]) -> str:
    which = (
        "neither recording has" if not any(has) else f"the {'second' if has[0] else 'first'} recording does not have"
    )
    without = next(record for record, own in zip(records, has, strict=True) if not own)
    reasons = [entry.reason for entry in without.entries if entry.status not in NO_TENSORS and entry.reason]
    why = f" ({reasons[0]})" if reasons else ""
    return f"{which} gradients{why}: only values were compared"


def _partners(alignment: Alignment, a: Side, b: Side, found: Settled) -> Iterator[str]:
    for number, (side, places, which) in enumerate(((a, alignment.only_a, "first"), (b, alignment.only_b, "second"))):
        told = {names[number] for names in found.dropped}
        names = [name for at in places if (name := side.entries[at].name) not in told]
        if names:
            yield f"only in the {which}, and not compared: {quoted(names)}"
    shared = [
        f"{a.entries[match.a].name!r} with {b.entries[match.b].name!r}"
        for match in alignment.matches
        if match.is_shared
    ]
    if shared:
        yield (
            f"one value in one recording and two in the other, whose gradients were not compared: "
            f"{listed(shared, text.MOST)}"
        )
    for how in (BY_PLACE, BY_NUMBERS):
        each = [match for match in alignment.matches if match.how == how]
        if each:
            pairs = [f"{a.entries[match.a].name!r} with {b.entries[match.b].name!r}" for match in each]
            yield f"matched {how}: {listed(pairs, text.MOST)}"


def _statuses(comparison: Comparison) -> list[str]:
    # Notes on pairs that have no gradient in either recording, but for different reasons, and on arguments that only
    # one program differentiates.
    sided = [repr(row.names[0]) for row in comparison.rows if row.gradient.why == ONE_SIDED]
    found = [
        f"{row.names[0]!r} ({row.a.status} and {row.b.status})"
        for row in comparison.rows
        if row.a.status is not row.b.status
        and row.gradient.why != ONE_SIDED
        and row.gradient.kind == ""
        and row.gradient.measure is None
        and comparison.factor is not None
    ]
    notes = [f"no gradient in both, but for other reasons: {listed(found, text.MOST)}"] if found else []
    return [*notes, *([f"arguments {ONE_SIDED}: {listed(sided, text.MOST)}"] if sided else [])]


def _uncompared(comparison: Comparison) -> Iterator[str]:
    # Notes on pairs whose values were not compared, one for each reason.
    reasons: dict[str, list[str]] = {}
    for row in comparison.rows:
        if row.value.why not in ("", NO_NUMBER):
            reasons.setdefault(row.value.why, []).append(repr(row.names[0]))
    for why, names in reasons.items():
        yield f"the values of {listed(names, text.MOST)} were not compared: {why}"


def _unmeasured(comparison: Comparison) -> Iterator[str]:
    # Notes on entries that ``noise=`` does not cover, for example because the noise recordings lack them.
    if comparison.noise is None:
        return
    names = [
        repr(row.names[0])
        for row in comparison.rows
        if any(one.floor is not None and not isinstance(one.floor, Measured) for one in (row.value, row.gradient))
    ]
    if names:
        yield f"noise= has no floor of these, which are compared with that by dtype: {listed(names, text.MOST)}"


def _unexplained(found: Blame) -> Iterator[str]:
    if found.first is not None and found.gradients and found.first_backward is None:
        yield text.explained(len(found.gradients))
