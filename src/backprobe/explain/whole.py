"""Every cause of a missing gradient in a recording, each once, with the gradients that are missing for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from backprobe.cuts import HISTORY, Cut, Ways
from backprobe.explain.missing import (
    LISTED,
    by_status,
    cut_finding,
    made_at,
    made_leaves,
    merged,
    not_connected,
    with_fact,
)
from backprobe.explain.present import lost_beside
from backprobe.findings import Finding, Report
from backprobe.hidden import hidden_cuts
from backprobe.record import Entry, GradStatus


def explain_all(ways: Ways) -> Report:
    """Every cause in a recording, each once, with the names whose gradients are missing for it."""
    missing = [at for at, entry in enumerate(ways.entries) if entry.status is not GradStatus.OK]
    lost = {at for at in missing if ways.entries[at].status is GradStatus.NOT_CONNECTED}
    findings, explained = [], set()
    for group in _by_line(ways, ways.among(ways.leading)):
        behind = ways.before([cut.mention.source for cut in group]) & lost
        explained |= behind
        finding = merged([cut_finding(ways, cut) for cut in group])[0]
        findings.append(with_fact(finding, _missing_for_it(ways, behind)) if behind else finding)
    ends, harmless = _ends(ways, lost - explained)
    findings += merged([finding for at in ends for finding in not_connected(ways, at)])
    opaque = [ways.entries[at] for at in missing if ways.entries[at].status is GradStatus.OPAQUE]
    findings += _by_reason([entry for entry in opaque if entry.cause is not None])
    findings += made_leaves(ways)
    notes = [*lost_beside(ways, ways.to_outputs), *harmless, *_not_told(opaque), *_frozen_note(ways, missing),
             *_by_nature(ways, missing)]  # fmt: skip
    there = len(ways.entries) - len(missing)
    heading = f"{there} of {len(ways.entries)} values {'has its' if there == 1 else 'have their'} gradient"
    without = "has none though it has" if len(lost) == 1 else "have none though they have"
    return Report(heading + (f"; {len(lost)} {without} a history" if lost else ""),
                  tuple(findings), tuple(notes))  # fmt: skip


def _ends(ways: Ways, lost: set[int]) -> tuple[list[int], list[str]]:
    """The last on each way that leads to no output; in sentences those that no gradient is missing for.

    So are numbers for people, the losses of earlier steps, and what only the derivative is used of.
    """
    last = [at for at in sorted(lost) if not any(target in lost for target in ways.consumers.get(at, ()))]
    differentiated = [at for at in last if ways.differentiated(at)]
    others = [at for at in last if at not in differentiated]
    beside = [at for at in others if _is_beside(ways, at, lost)]
    notes = [
        *_each_line(ways, differentiated, "only the derivative goes on from"),
        *_each_line(ways, beside, "nothing that is differentiated is computed from"),
    ]
    return [at for at in others if at not in beside], notes


def _is_beside(ways: Ways, at: int, lost: set[int]) -> bool:
    """Does all that a value is computed from have its gradient by other ways, or came it after the outputs?"""
    first = [each for each in ways.before([at]) & lost
             if not any(ways.entries[source].status in HISTORY for source in ways.sources(each))]  # fmt: skip
    there = [ways.entries[each] for each in ways.to_outputs]
    together = {_place(entry) for entry in there if entry.op and entry.status is GradStatus.OK}
    end = max(ways.record.outputs, default=len(ways.entries))
    return all(each > end or _place(ways.entries[each]) in together for each in first)


def _place(entry: Entry) -> tuple[str, int] | None:
    return None if entry.source is None else (entry.source.file, entry.source.line)


def _each_line(ways: Ways, positions: Sequence[int], words: str) -> list[str]:
    """What is to be said of values, once for each line that they were made at."""
    lines: dict[object, list[int]] = {}
    for at in positions:
        lines.setdefault(_place(ways.entries[at]) or at, []).append(at)
    found = [f"{words} {made_at(ways.entries[first])}" + (f", {_listed(ways, others)}" if others else "")
             for first, *others in lines.values()]  # fmt: skip
    return found[:LISTED] + ([f"and so of {len(found) - LISTED} more lines"] if len(found) > LISTED else [])


def _by_line(ways: Ways, cuts: Sequence[Cut]) -> list[list[Cut]]:
    """Cuts of the same line, or of the same value where no line is known."""
    groups: dict[object, list[Cut]] = {}
    for cut in cuts:
        line = cut.mention.line
        groups.setdefault(cut.target if line is None else (line.file, line.line, cut.mention.use.text), []).append(cut)
    return list(groups.values())


def _by_reason(entries: Sequence[Entry]) -> list[Finding]:
    """Entries whose gradient is missing for one reason, as one finding."""
    groups: dict[object, list[Entry]] = {}
    for entry in entries:
        groups.setdefault((entry.status, entry.reason, entry.cause), []).append(entry)
    found = []
    for first, *others in groups.values():
        names = ", ".join(entry.name for entry in others[:LISTED])
        more = f" and {len(others) - LISTED} more" if len(others) > LISTED else ""
        finding = by_status(first)
        found.append(with_fact(finding, f"the same of {names}{more}") if others else finding)
    return found


def _not_told(entries: Sequence[Entry]) -> Iterator[str]:
    """What cannot be judged is no fault of the program's."""
    groups: dict[str, list[str]] = {}
    for entry in entries:
        if entry.cause is None:
            groups.setdefault(entry.reason, []).append(entry.name)
    for reason, names in groups.items():
        more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
        yield f"not told: {reason}: {', '.join(names[:LISTED])}{more}"


def _missing_for_it(ways: Ways, at: set[int]) -> str:
    return "the gradients that are missing for it: " + _listed(ways, sorted(at))


def _listed(ways: Ways, positions: Sequence[int]) -> str:
    names = ", ".join(ways.entries[at].name for at in positions[:LISTED])
    return names + (f" and {len(positions) - LISTED} more" if len(positions) > LISTED else "")


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
        "neither floating point nor complex": lambda entry: entry.status is GradStatus.NOT_FLOAT,
        "never computed": lambda entry: entry.status is GradStatus.NOT_EXECUTED,
    }
    for words, is_one in kinds.items():
        found = [at for at in missing if is_one(ways.entries[at])]
        if found:
            yield f"{words}: {_listed(ways, found)}"
