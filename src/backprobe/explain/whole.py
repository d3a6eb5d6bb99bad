"""Every cause of a missing gradient in a recording, each once, with the gradients that are missing for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from backprobe.cuts import Cut, Ways
from backprobe.explain.missing import (
    LISTED,
    by_status,
    cut_finding,
    is_of_whole_numbers,
    made_at,
    made_leaves,
    merged,
    not_connected,
    with_fact,
)
from backprobe.explain.present import lost_beside, place
from backprobe.explain.tapes import none_given
from backprobe.findings import Finding, Report
from backprobe.hidden import hidden_cuts
from backprobe.names import strip
from backprobe.record import Entry, GradStatus


def explain_all(ways: Ways) -> Report:
    """Every cause in a recording, each once, with the names whose gradients are missing for it."""
    missing = [at for at, entry in enumerate(ways.entries) if entry.status is not GradStatus.OK]
    lost = {at for at in missing if ways.entries[at].status is GradStatus.NOT_CONNECTED}
    findings, explained, updates = [], set(), []
    is_replaced = _replaced(ways)
    for group in _by_line(ways, ways.among(ways.leading)):
        behind = ways.before([cut.mention.source for cut in group]) & lost
        explained |= behind
        if all(cut.mention.use.kind == "assigned" for cut in group) and is_replaced(behind):
            updates.append(place(group[0].mention, ways.entries[group[0].target]))
            continue
        finding, *others = merged([cut_finding(ways, cut) for cut in group])
        if others:
            finding = with_fact(finding, f"so it is with {_names([other.name for other in others])}")
        findings.append(with_fact(finding, _missing_for_it(ways, behind)) if behind else finding)
    for at in sorted(lost - explained):
        if not any(target in lost - explained for target in ways.consumers.get(at, ())):  # the last on its way
            findings += not_connected(ways, at)
    opaque = [ways.entries[at] for at in missing if ways.entries[at].status is GradStatus.OPAQUE]
    findings += _by_reason([entry for entry in opaque if not is_of_whole_numbers(entry)])
    findings += made_leaves(ways)
    findings += none_given(ways.record)
    notes = [*lost_beside(ways, ways.to_outputs), *_assigned(updates), *_frozen_note(ways, missing),
             *_by_nature(ways, missing)]  # fmt: skip
    there = len(ways.entries) - len(missing)
    heading = f"{there} of {len(ways.entries)} values {'has its' if there == 1 else 'have their'} gradient"
    without = "has none though it has" if len(lost) == 1 else "have none though they have"
    return Report(heading + (f"; {len(lost)} {without} a history" if lost else ""),
                  tuple(findings), tuple(notes))  # fmt: skip


def _by_line(ways: Ways, cuts: Sequence[Cut]) -> list[list[Cut]]:
    """Cuts of the same line; where no line is known of the same value, and all under ``no_grad``: that may be one."""
    groups: dict[object, list[Cut]] = {}
    for cut in cuts:
        line, target = cut.mention.line, ways.entries[cut.target]
        alone = target.status if target.status is GradStatus.NO_GRAD else cut.target
        groups.setdefault(alone if line is None else (line.file, line.line, cut.mention.use.text), []).append(cut)
    return list(groups.values())


def _replaced(ways: Ways) -> Callable[[set[int]], bool]:
    """Are these all superseded where they begin, by later values of the same names that have their gradients?

    So it is with what an earlier step of training has computed: what it wrote into the Variables is meant to stay.
    """
    there = {strip(full) for full, at in ways.record.names.items() if ways.entries[at].status is GradStatus.OK}
    later = {at for full, at in ways.record.names.items() if strip(full) in there}
    return lambda lost: all(at in later for at in lost if not lost & ways.sources(at).keys())


def _assigned(places: Sequence[str]) -> Iterator[str]:
    if places:
        more = f" and {len(places) - LISTED} more lines" if len(places) > LISTED else ""
        yield f"no gradient flows to earlier steps through what is assigned: {', '.join(places[:LISTED])}{more}"


def _by_reason(entries: Sequence[Entry]) -> list[Finding]:
    """Entries whose gradient is missing for one reason, as one finding."""
    groups: dict[object, list[Entry]] = {}
    for entry in entries:
        groups.setdefault((entry.status, entry.reason, entry.cause), []).append(entry)
    found = []
    for first, *others in groups.values():
        finding = by_status(first)
        names = _names([entry.name for entry in others])
        found.append(with_fact(finding, f"the same of {names}") if others else finding)
    return found


def _missing_for_it(ways: Ways, at: set[int]) -> str:
    return "the gradients that are missing for it: " + _listed(ways, sorted(at))


def _listed(ways: Ways, positions: Sequence[int]) -> str:
    return _names([ways.entries[at].name for at in positions])


def _names(names: Sequence[str]) -> str:
    return ", ".join(names[:LISTED]) + (f" and {len(names) - LISTED} more" if len(names) > LISTED else "")


def _frozen_note(ways: Ways, missing: Sequence[int]) -> Iterator[str]:
    frozen = [at for at in missing if ways.entries[at].status is GradStatus.FROZEN]
    cut_off = {at: found for at in missing if (found := hidden_cuts(ways.entries[at]))}
    behind = [at for at in frozen if not cut_off.keys().isdisjoint(ways.before([at]))]
    plain = [at for at in frozen if at not in behind]
    if plain:
        yield f"computed from nothing that requires a gradient: {_listed(ways, plain)}"
    for at, cuts in [found for found in cut_off.items() if found[0] in ways.to_outputs][:LISTED]:
        kinds = ", ".join(dict.fromkeys(use.kind for _, use in cuts))
        of = ", ".join(dict.fromkeys(f"`{text}`" for text, _ in cuts))
        yield f"cut off from {of}, which is not recorded ({kinds}): {made_at(ways.entries[at])}"


def _by_nature(ways: Ways, missing: Sequence[int]) -> Iterator[str]:
    kinds: dict[str, Callable[[Entry], bool]] = {
        "no tensors": lambda entry: entry.status is GradStatus.NOT_TENSOR,
        "neither floating point nor complex": is_of_whole_numbers,
        "never computed": lambda entry: entry.status is GradStatus.NOT_EXECUTED,
    }
    for words, is_one in kinds.items():
        found = [at for at in missing if is_one(ways.entries[at])]
        if found:
            yield f"{words}: {_listed(ways, found)}"
