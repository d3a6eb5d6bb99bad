"""Every cause of a missing gradient in a recording, each once, with the gradients that are missing for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import takewhile

from backprobe.cuts.cuts import DIFFERENTIATED, HISTORY, Cut, Mention, Ways
from backprobe.cuts.unrecorded import hidden_beside, hidden_cuts
from backprobe.explain.cutting import cut_finding, in_vain, is_in_vain
from backprobe.explain.partial_loss import lost_beside, place
from backprobe.explain.sentences import LISTED, by_status, is_of_whole_numbers, is_returned, made_at, merged, with_fact
from backprobe.explain.unconnected import not_connected, passing_on_many
from backprobe.explain.user_tapes import none_given
from backprobe.explain.without_history import made_leaves
from backprobe.findings.report import Finding, Report
from backprobe.record.entries import Entry, GradStatus
from backprobe.record.names import partition, split, strip
from backprobe.record.reasons import WRITTEN_SINCE
from backprobe.record.source import Source
from backprobe.source.user_code import package


def explain_all(ways: Ways) -> Report:
    """Every cause in a recording, each once, with the names whose gradients are missing for it."""
    missing = [at for at, entry in enumerate(ways.entries) if entry.status is not GradStatus.OK]
    lost = {at for at in missing if ways.entries[at].status is GradStatus.NOT_CONNECTED}
    severed, explained, updates, spared = _severed(ways, lost)
    rest, is_replaced = lost - explained, _replaced(ways)
    returned = _returned_beside(ways)
    leaves = {
        at for at in rest if _is_leaf(ways, at) and not is_replaced({at}) and not returned & ways.after(at).keys()
    }
    findings = [*severed, *_of_leaves(ways, leaves)]
    findings += _in_vain(ways, {finding.source for finding in findings})
    faults, not_told = _unheard(ways, missing)
    findings += [*faults, *made_leaves(ways), *none_given(ways.record)]
    beside = [*ways.lost_beside(ways.to_outputs), *ways.beside(ways.leading), *spared]
    if not _has_run(ways, missing):  # no output is known
        beside += [cut.mention for cut in ways.among(set(range(len(ways.entries)))) if not cut.is_behind]
    notes = [*lost_beside(ways, beside), *_assigned(updates),
             *_beside(ways, rest - leaves - _items_of(ways, explained)), *not_told,
             *_frozen_note(ways, missing), *_by_nature(ways, missing)]  # fmt: skip
    return Report(_heading(ways, missing, lost), tuple(findings), tuple(notes))


def _heading(ways: Ways, missing: Sequence[int], lost: set[int]) -> str:
    there = len(ways.entries) - len(missing)
    heading = f"{there} of {len(ways.entries)} values {'has its' if there == 1 else 'have their'} gradient"
    without = "has none though it has" if len(lost) == 1 else "have none though they have"
    return heading + (f"; {len(lost)} {without} a history" if lost else "")


def _severed(ways: Ways, lost: set[int]) -> tuple[list[Finding], set[int], list[str], list[Mention]]:
    """The lines that gradients cannot flow past, and the values that are lost for them.

    What is no fault is told apart: updates, and what is cut off while all its leaves are reached by other ways.
    """
    findings, explained, updates, spared = [], set(), [], []
    is_replaced = _replaced(ways)
    for group in _by_line(ways, ways.severing(ways.leading)):
        behind = ways.before([cut.mention.source for cut in group]) & lost
        explained |= behind
        if all(cut.mention.use.kind == "assigned" for cut in group) and is_replaced(behind):
            updates.append(place(group[0].mention, ways.entries[group[0].target]))
            continue
        if behind and _are_leaves_reached(ways, behind) and not any(cut.is_silent for cut in group):
            spared += [cut.mention for cut in group]
            continue
        finding, *others = merged([cut_finding(ways, cut) for cut in group])
        if others:
            finding = with_fact(finding, f"so it is with {_names([other.name for other in others])}")
            finding = _inside([finding, *others])
        findings.append(with_fact(finding, _missing_for_it(ways, behind)) if behind else finding)
    if passing_on_many(ways.record):
        explained |= {at for at in lost if ways.first_of_line.get(at) in explained}
    return findings, explained, updates, spared


def _are_leaves_reached(ways: Ways, lost: set[int]) -> bool:
    """Has backward come to all leaves behind these by other ways, so that nothing goes untrained for them?"""
    return all(ways.entries[at].leaves_reached for at in lost)


def _in_vain(ways: Ways, told: Collection[Source | None]) -> list[Finding]:
    """Reentrant checkpoints that were given nothing differentiated, at lines of which nothing was said so far."""
    return merged([in_vain(ways, e) for e in ways.entries if is_in_vain(e) and e.cause not in told])


def _has_run(ways: Ways, missing: Sequence[int]) -> bool:
    """Has backward? Then what it did not come to has its reasons."""
    return len(missing) < len(ways.entries)


def _unheard(ways: Ways, missing: Sequence[int]) -> tuple[list[Finding], list[str]]:
    """Where gradients cannot be told, and where no backward went by: findings, and notes of what is no fault."""
    entries = [ways.entries[at] for at in missing]
    opaque = [entry for entry in entries if entry.status is GradStatus.OPAQUE and not is_of_whole_numbers(entry)]
    reasons = _by_reason(ways, [*opaque, *(e for e in entries if e.status is GradStatus.BACKWARD_NOT_RUN)])
    by_nature = ("opaque", "backward_not_run") if _has_run(ways, missing) else ("opaque",)
    notes = ["; ".join([one.headline, *one.facts]) for one in reasons if one.kind in by_nature]
    return [one for one in reasons if one.kind not in by_nature], notes


def _of_leaves(ways: Ways, lost: set[int]) -> Iterator[Finding]:
    """Why leaves have no gradient that no cut explains; of what is computed from them that is not said again."""
    found = []
    for at in sorted(lost):
        found += [(at, finding) for finding in not_connected(ways, at) if finding.kind != DIFFERENTIATED]
    groups: dict[object, list[tuple[int, Finding]]] = {}
    for at, finding in found:
        line = None if finding.kind == "no_grad" and _is_of_library(finding.source) else finding.source
        groups.setdefault((finding.kind, line), []).append((at, finding))
    for (_, finding), *others in groups.values():
        names = _listed(ways, sorted({at for at, _ in others}))
        inside = _inside([finding, *(other for _, other in others)])
        yield with_fact(inside, f"the same is missing for it of {names}") if others else finding


def _is_of_library(line: Source | None) -> bool:
    return line is not None and package(line.file) is not None


def _inside(findings: Sequence[Finding]) -> Finding:
    """The first of several findings, with the module that all of them lie in, where that is known."""
    paths = [partition(split(strip(finding.name))[0], ".") for finding in findings]
    common = list(takewhile(lambda parts: len(set(parts)) == 1, zip(*paths, strict=False)))
    if not common or not _is_of_library(findings[0].source):
        return findings[0]
    module = ".".join(parts[0] for parts in common)
    return with_fact(findings[0], f"all of that is computed in {module!r}: look at the line that calls it")


def _is_leaf(ways: Ways, at: int) -> bool:
    """Is it what one differentiates for its own sake: an argument or a parameter, not named after the outputs were?"""
    entry = ways.entries[at]
    is_made = entry.op or (entry.source is not None and entry.source.expression)
    is_leaf = entry.is_leaf or not (is_made or is_returned(ways, at))  # an argument is a view of what it was given
    is_first = not any(ways.entries[source].status in HISTORY for source in ways.sources(at))
    return is_leaf and is_first and at <= max(ways.record.outputs, default=at)


def _returned_beside(ways: Ways) -> set[int]:
    """What a function returns beside the output that was differentiated, as the new state of an optimizer."""
    returned = {at for full, at in ways.record.names.items() if strip(full).startswith(":return")}
    return returned - set(ways.record.outputs)


def _beside(ways: Ways, lost: set[int]) -> Iterator[str]:
    """What has no gradient, though all that it is computed from has, or came after the outputs: no fault by itself.

    So are numbers for people, the losses of earlier steps, and what only the derivative is used of.
    """
    derived = [at for at in lost if at in ways.derived]
    before = ways.before(derived)
    words = {
        "only the derivative is used of": derived,
        "computed, and not used for an output": [*(lost - before)],
    }
    for said, positions in words.items():
        counts = Counter(strip(ways.entries[at].name).removeprefix(":") for at in sorted(positions))
        names = [name + (f" ({count} times)" if count > 1 else "") for name, count in counts.items()]
        more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
        if names:
            yield f"{said}: {', '.join(names[:LISTED])}{more}"


def _items_of(ways: Ways, explained: set[int]) -> set[int]:
    """What a comprehension goes through, where its line is why that is missing: the items are lost with it."""
    cut = {(mention.line.file, mention.line.line) for cut in ways.among(ways.leading)
           if (mention := cut.mention).line is not None}  # fmt: skip
    return {
        at for at, entry in enumerate(ways.entries)
        if (line := entry.source) is not None and not line.expression and not entry.op
        and (line.file, line.line) in cut and not explained.isdisjoint(ways.edges[at])
    }  # fmt: skip


def _by_line(ways: Ways, cuts: Sequence[Cut]) -> list[list[Cut]]:
    """Cuts of the same line; where no line of the user's is known of the same value, and all under ``no_grad``: that
    may be one line.
    """
    groups: dict[object, list[Cut]] = {}
    for cut in cuts:
        line, target = cut.mention.line, ways.entries[cut.target]
        alone = target.status if target.status is GradStatus.NO_GRAD else cut.target
        is_known = line is not None and not (alone is GradStatus.NO_GRAD and _is_of_library(line))
        key = (line.file, line.line, cut.mention.use.text) if line is not None and is_known else alone
        groups.setdefault(key, []).append(cut)
    return list(groups.values())


def _replaced(ways: Ways) -> Callable[[set[int]], bool]:
    """Are these all superseded where they begin, by later values, or those of the same names that have their gradients?

    So it is with what an earlier step of training has computed: what it wrote into the Variables is meant to stay.
    """
    there = {strip(full) for full, at in ways.record.names.items() if ways.entries[at].status is GradStatus.OK}
    later = {at for full, at in ways.record.names.items()
             if strip(full) in there or ways.entries[at].is_because(*WRITTEN_SINCE)}  # fmt: skip
    return lambda lost: all(at in later for at in lost if not lost & ways.sources(at).keys())


def _assigned(places: Sequence[str]) -> Iterator[str]:
    if places:
        more = f" and {len(places) - LISTED} more lines" if len(places) > LISTED else ""
        yield f"no gradient flows to earlier steps through what is assigned: {', '.join(places[:LISTED])}{more}"


def _by_reason(ways: Ways, entries: Sequence[Entry]) -> list[Finding]:
    """Entries whose gradient is missing for one reason, as one finding."""
    groups: dict[object, list[Entry]] = {}
    for entry in entries:
        groups.setdefault((entry.status, entry.why, entry.cause), []).append(entry)
    found = []
    for first, *others in groups.values():
        finding = by_status(ways, first)
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
    beside = {at: found for at in sorted(ways.to_outputs) if (found := hidden_beside(ways.entries[at]))}
    told = {**{at: cuts for at, cuts in cut_off.items() if at in ways.to_outputs}, **beside}
    for at, cuts in list(told.items())[:LISTED]:
        kinds = ", ".join(dict.fromkeys(one.use.kind for one in cuts))
        of = ", ".join(dict.fromkeys(f"`{one.text}`" for one in cuts))
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
