"""What is notable about a gradient that is there: that it is zero everywhere, and which line made it so."""

from __future__ import annotations

from collections import deque

from backprobe.backends.facts import Summary
from backprobe.backends.tensors import Arrays
from backprobe.cuts.cuts import Cut, Ways
from backprobe.cuts.lines import line_of
from backprobe.explain.catalogue import CAUSES, instead_of_flat
from backprobe.explain.cutting import cut_finding
from backprobe.explain.partial_loss import lost_beside
from backprobe.explain.sentences import merged
from backprobe.explain.user_tapes import none_given
from backprobe.findings.report import Finding, Report
from backprobe.record.entries import Entry, GradStatus
from backprobe.record.reasons import Note


def explain_present(ways: Ways, entry: Entry, arrays: Arrays) -> Report:
    """What is to be said of an entry that has its gradient."""
    at = ways.position[entry.name]
    findings = [*_overwritten(ways, at), *_zero(ways, at, arrays)]
    after = ways.after(at).keys() & ways.to_outputs
    cut = [cut.mention for cut in ways.among(after) if not cut.is_behind and not cut.is_silent]
    lost = lost_beside(ways, [*ways.lost_beside(after), *cut])
    heading = f"{entry.name!r} has its gradient: nothing is missing"
    if lost:
        heading = f"{entry.name!r} has its gradient, and not along each way that its numbers go"
    asked = none_given(ways.record, entry.name)
    if asked:
        heading = f"{entry.name!r} has its gradient here, and a tape of the program's own gave None for it"
    elif findings:
        heading += ", and that much is to be known of it"
    return Report(heading, (*asked, *findings), (*lost, *_notes(ways, entry, arrays)))


def _notes(ways: Ways, entry: Entry, arrays: Arrays) -> list[str]:
    notes = []
    if entry.aliases:
        notes.append(f"the same value is also called {', '.join(entry.aliases)}")
    if ways.edges[ways.position[entry.name]] and ways.record.framework == "torch":
        notes.append(
            f"it was computed, and is no leaf: in PyTorch its own .grad is None, and rec[{entry.name!r}].grad is there"
        )
    known = arrays.summarize(entry.held_grad)
    if known is not None and known.nonfinite:
        notes.append(f"{known.nonfinite} of the {known.size} numbers of the gradient are not finite")
    return [*notes, *map(str, ways.record.notes)]


def _overwritten(ways: Ways, at: int) -> list[Finding]:
    """Values on the way to the output that were written out of sight: the gradient is that of the new numbers."""
    cause = CAUSES["overwritten"]
    after = ways.after(at)
    found = []
    for each in after:
        entry = ways.entries[each]
        if entry.status is GradStatus.OPAQUE and entry.cause is not None and each in ways.leading:
            fields = {"value": repr(entry.name)}
            found.append(Finding("overwritten", entry.name, cause.headline(**fields), entry.cause, (entry.reason,),
                                 ways.chain(after, each), cause.instead(ways.record.framework, **fields)))  # fmt: skip
    return found


def _zero(ways: Ways, at: int, arrays: Arrays) -> list[Finding]:
    """Where a gradient that is zero everywhere became so: the nearest values that it comes from and that have one."""
    if not _is_zero(arrays.summarize(ways.entries[at].held_grad)):
        return []
    found: list[Finding] = []
    before: dict[int, int | None] = {at: None}
    pending = deque([at])
    while pending:
        source = pending.popleft()
        for target in ways.consumers.get(source, ()):
            entry = ways.entries[target]
            if source not in ways.edges[target] or entry.status is not GradStatus.OK or target in before:
                continue
            before[target] = source
            if _is_zero(arrays.summarize(entry.held_grad)):
                pending.append(target)
            elif cuts := _cut_in_a_loop(ways, target):
                found += [cut_finding(ways, cut, ways.chain(before, target)) for cut in cuts]
            elif Note("hooked", about=ways.entries[source].name) in ways.record.notes:
                found.append(_hooked(ways, source, target, ways.chain(before, source)))
            else:
                found.append(_flat(ways, source, target, ways.chain(before, target), arrays))
    return merged(found)


def _hooked(ways: Ways, source: int, target: int, chain: tuple[str, ...]) -> Finding:
    """Where a value has a hook, nobody knows what came to it."""
    value, cause = ways.entries[source], CAUSES["hooked"]
    fields = {"value": repr(value.name)}
    facts = (f"the gradient of {ways.entries[target].name!r} is not zero, that of {value.name!r} is zero everywhere",)
    return Finding("hooked", value.name, cause.headline(**fields), value.source, facts, chain,
                   cause.instead(ways.record.framework, **fields))  # fmt: skip


def _cut_in_a_loop(ways: Ways, at: int) -> list[Cut]:
    """The cuts in what a value was computed by many times over, whose values have no edges to those outside of it."""
    entry = ways.entries[at]
    returned = [ways.position[read.name] for read in entry.reads if read.spelled.partition(".")[0].endswith("()")]
    return ways.among(ways.before([each for each in returned if ways.entries[each].axes]))


def _flat(ways: Ways, source: int, target: int, chain: tuple[str, ...], arrays: Arrays) -> Finding:
    value, entry = ways.entries[source], ways.entries[target]
    facts = [f"the gradient of {entry.name!r} is not zero, that of {value.name!r} is zero everywhere"]
    if _is_zero(_summary(entry, arrays)):
        facts.append(f"{entry.name!r} itself is zero everywhere: all of it is switched off for this input")
    others = [each for each in ways.consumers.get(source, ()) if source in ways.edges[each] and each != target]
    if others:
        facts.append(f"{value.name!r} also goes into {len(others)} other values; contributions may have cancelled: "
                     "bp.probe(..., partials=True) tells each")  # fmt: skip
    framework = ways.record.framework
    each = "bp.probe(..., partials=True) gives the derivative of each value towards each input"
    instead = instead_of_flat(entry.op, framework) or each
    fields = {"value": repr(value.name), "target": repr(entry.name), "instead": instead}
    cause = CAUSES["zero_derivative"]
    line = None if entry.source is None else line_of(entry.source, entry.source.expression)
    return Finding("zero_derivative", entry.name, cause.headline(**fields), line, tuple(facts), chain,
                   cause.instead(framework, **fields))  # fmt: skip


def _summary(entry: Entry, arrays: Arrays) -> Summary | None:
    return arrays.summarize(entry.held_value) if arrays.is_tensor(entry.held_value) else None


def _is_zero(known: Summary | None) -> bool:
    return known is not None and not known.nonfinite and known.size > 0 and known.largest == 0
