"""Every cause of a missing gradient in a recording, each once, with the gradients that are missing because of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import takewhile

from backprobe.cuts.cuts import HISTORY, Cut, Dataflow
from backprobe.cuts.mentions import DIFFERENTIATED, Mention
from backprobe.cuts.unrecorded import hidden_beside, hidden_cuts
from backprobe.explain.about_entries import by_status, is_of_whole_numbers, is_returned, merged, with_fact
from backprobe.explain.cutting import cut_finding, in_vain, is_in_vain
from backprobe.explain.partial_loss import lost_beside, part_of_line
from backprobe.explain.text import say
from backprobe.explain.unconnected import not_connected, passing_on_many
from backprobe.explain.user_tapes import none_given
from backprobe.explain.without_history import made_leaves
from backprobe.findings.phrasing import MOST, listed, named
from backprobe.findings.report import Finding, Report
from backprobe.record.entries import Entry, GradStatus
from backprobe.record.names import partition, split, strip
from backprobe.record.reasons import WRITTEN_SINCE
from backprobe.record.source import Source
from backprobe.source.user_code import package


def explain_all(flow: Dataflow) -> Report:
    """Every cause in a recording, each once, with the names whose gradients are missing because of it."""
    missing = [at for at, entry in enumerate(flow.entries) if entry.status is not GradStatus.OK]
    lost = {at for at in missing if flow.entries[at].status is GradStatus.NOT_CONNECTED}
    severed, explained, updates, spared = _severed(flow, lost)
    rest, is_replaced = lost - explained, _replaced(flow)
    returned = _returned_beside(flow)
    leaves = {
        at for at in rest if _is_leaf(flow, at) and not is_replaced({at}) and not returned & flow.after(at).keys()
    }
    findings = [*severed, *_of_leaves(flow, leaves)]
    findings += _in_vain(flow, {finding.source for finding in findings})
    faults, unfelt = _by_reason(flow, missing)
    findings += [*faults, *made_leaves(flow), *none_given(flow.record)]
    beside = [*flow.lost_beside(flow.to_outputs), *flow.beside(flow.leading), *spared]
    if not _has_run(flow, missing):  # no output is known
        beside += [cut.mention for cut in flow.among(set(range(len(flow.entries)))) if not cut.is_behind]
    notes = [*lost_beside(flow, beside), *([say("assigned_between", places=listed(updates))] if updates else ()),
             *_unused(flow, rest - leaves - _items_of(flow, explained)), *unfelt,
             *_frozen(flow, missing), *_by_nature(flow, missing)]  # fmt: skip
    return Report(_heading(flow, missing, lost), tuple(findings), tuple(notes))


def _heading(flow: Dataflow, missing: Sequence[int], lost: set[int]) -> str:
    there = len(flow.entries) - len(missing)
    heading = say("overview", there=there, all=len(flow.entries))
    return f"{heading}; {say('lost', count=len(lost))}" if lost else heading


def _severed(flow: Dataflow, lost: set[int]) -> tuple[list[Finding], set[int], list[str], list[Mention]]:
    """The lines that gradients cannot flow past, and the values that are lost because of them.

    Two things are not faults and are returned apart: updates, and cuts whose leaves are all reached by other ways.
    """
    findings, explained, updates, spared = [], set(), [], []
    is_replaced = _replaced(flow)
    for group in _by_line(flow, flow.severing(flow.leading)):
        behind = flow.before([cut.mention.source for cut in group]) & lost
        explained |= behind
        if all(cut.mention.use.kind == "assigned" for cut in group) and is_replaced(behind):
            updates.append(part_of_line(group[0].mention, flow.entries[group[0].target]))
        elif behind and _are_leaves_reached(flow, behind) and not any(cut.is_silent for cut in group):
            spared += [cut.mention for cut in group]
        else:
            found = _inside(merged([cut_finding(flow, cut) for cut in group]), "same_of")
            findings.append(with_fact(found, say("missing_for_it", names=_names(flow, behind))) if behind else found)
    if passing_on_many(flow.record):  # what the same line does to others is not followed
        explained |= {at for at in lost if flow.first_of_line.get(at) in explained}
    return findings, explained, updates, spared


def _are_leaves_reached(flow: Dataflow, lost: set[int]) -> bool:
    """Has backward come to all leaves behind these by other ways, so that nothing goes untrained for them?"""
    return all(flow.entries[at].leaves_reached for at in lost)


def _in_vain(flow: Dataflow, known: Collection[Source | None]) -> list[Finding]:
    """Reentrant checkpoints that were given nothing differentiated, at lines of which nothing was said so far."""
    return merged([in_vain(flow, e) for e in flow.entries if is_in_vain(e) and e.cause not in known])


def _has_run(flow: Dataflow, missing: Sequence[int]) -> bool:
    """Has backward? Then what it did not come to has its reasons."""
    return len(missing) < len(flow.entries)


def _by_reason(flow: Dataflow, missing: Sequence[int]) -> tuple[list[Finding], list[str]]:
    """Gradients that could not be captured, and those of backward passes that did not run, one finding a reason.

    Those that are not faults come as notes.
    """
    entries = [flow.entries[at] for at in missing]
    opaque = [entry for entry in entries if entry.status is GradStatus.OPAQUE and not is_of_whole_numbers(entry)]
    groups: dict[object, list[Entry]] = {}
    for entry in (*opaque, *(entry for entry in entries if entry.status is GradStatus.BACKWARD_NOT_RUN)):
        groups.setdefault((entry.status, entry.why, entry.cause), []).append(entry)
    found = []
    for first, *others in groups.values():
        fact = say("same_of", names=listed([entry.name for entry in others]))
        found.append(with_fact(by_status(flow, first), fact) if others else by_status(flow, first))
    harmless = ("opaque", "backward_not_run") if _has_run(flow, missing) else ("opaque",)
    notes = ["; ".join([one.headline, *one.facts]) for one in found if one.kind in harmless]
    return [one for one in found if one.kind not in harmless], notes


def _of_leaves(flow: Dataflow, lost: set[int]) -> Iterator[Finding]:
    """Why leaves have no gradient that no cut explains; of what is computed from them that is not said again."""
    groups: dict[object, list[tuple[int, Finding]]] = {}
    for at in sorted(lost):
        for found in not_connected(flow, at):
            line = None if found.kind == "no_grad" and _is_of_library(found.source) else found.source
            if found.kind != DIFFERENTIATED:
                groups.setdefault((found.kind, line), []).append((at, found))
    for group in groups.values():
        others = {at for at, _ in group[1:]}
        found = _inside([found for _, found in group])
        yield with_fact(found, say("missing_for_it", names=_names(flow, others))) if others else found


def _is_of_library(line: Source | None) -> bool:
    return line is not None and package(line.file) is not None


def _inside(findings: Sequence[Finding], others: str = "") -> Finding:
    """The first of several findings, with the others' names and the module in which all lie, where that is known."""
    first = findings[0]
    if others and len(findings) > 1:
        first = with_fact(first, say(others, names=listed([finding.name for finding in findings[1:]])))
    paths = [partition(split(strip(finding.name))[0], ".") for finding in findings]
    common = list(takewhile(lambda parts: len(set(parts)) == 1, zip(*paths, strict=False)))
    if not common or not _is_of_library(first.source) or (others and len(findings) == 1):
        return first
    return with_fact(first, say("inside_module", module=repr(".".join(parts[0] for parts in common))))


def _is_leaf(flow: Dataflow, at: int) -> bool:
    """Is it what one differentiates for its own sake: an argument or a parameter, not named after the outputs were?"""
    entry = flow.entries[at]
    is_made = entry.op or (entry.source is not None and entry.source.expression)
    is_leaf = entry.is_leaf or not (is_made or is_returned(flow, at))  # an argument is a view of what it was given
    is_first = not any(flow.entries[source].status in HISTORY for source in flow.sources(at))
    return is_leaf and is_first and at <= max(flow.record.outputs, default=at)


def _returned_beside(flow: Dataflow) -> set[int]:
    """What a function returns beside the output that was differentiated, as the new state of an optimizer."""
    returned = {at for full, at in flow.record.names.items() if strip(full).startswith(":return")}
    return returned - set(flow.record.outputs)


def _unused(flow: Dataflow, lost: set[int]) -> Iterator[str]:
    """What has no gradient, though all that it is computed from has, or came after the outputs: no fault by itself.

    Examples are numbers for people, the losses of earlier steps, and values of which only the derivative is used.
    """
    derived = [at for at in lost if at in flow.derived]
    for code, positions in (("only_derivative", {*derived}), ("not_used", lost - flow.before(derived))):
        counts = Counter(strip(flow.entries[at].name).removeprefix(":") for at in sorted(positions))
        names = [name + (f" ({count} times)" if count > 1 else "") for name, count in counts.items()]
        if names:
            yield say(code, names=listed(names))


def _items_of(flow: Dataflow, explained: set[int]) -> set[int]:
    """What a comprehension goes through, where its line is why that is missing: the items are lost with it."""
    cut = {(mention.line.file, mention.line.line) for cut in flow.among(flow.leading)
           if (mention := cut.mention).line is not None}  # fmt: skip
    return {
        at for at, entry in enumerate(flow.entries)
        if (line := entry.source) is not None and not line.expression and not entry.op
        and (line.file, line.line) in cut and not explained.isdisjoint(flow.edges[at])
    }  # fmt: skip


def _by_line(flow: Dataflow, cuts: Sequence[Cut]) -> list[list[Cut]]:
    """Cuts of the same line. Where the program's own line is not known, cuts of the same value are one group, and all
    under ``no_grad``: that may be one line.
    """
    groups: dict[object, list[Cut]] = {}
    for cut in cuts:
        line, target = cut.mention.line, flow.entries[cut.target]
        alone = target.status if target.status is GradStatus.NO_GRAD else cut.target
        is_known = line is not None and not (alone is GradStatus.NO_GRAD and _is_of_library(line))
        key = (line.file, line.line, cut.mention.use.text) if line is not None and is_known else alone
        groups.setdefault(key, []).append(cut)
    return list(groups.values())


def _replaced(flow: Dataflow) -> Callable[[set[int]], bool]:
    """Are these all superseded where they begin, by later values, or those of the same names that have their gradients?

    What an earlier step of training has computed is: what it wrote into the Variables is meant to stay.
    """
    there = {strip(full) for full, at in flow.record.names.items() if flow.entries[at].status is GradStatus.OK}
    later = {at for full, at in flow.record.names.items()
             if strip(full) in there or flow.entries[at].is_because(*WRITTEN_SINCE)}  # fmt: skip
    return lambda lost: all(at in later for at in lost if not lost & flow.sources(at).keys())


def _names(flow: Dataflow, positions: Collection[int]) -> str:
    return listed([flow.entries[at].name for at in sorted(positions)])


def _frozen(flow: Dataflow, missing: Sequence[int]) -> Iterator[str]:
    """What requires no gradient, and lines that cut off what is not recorded."""
    frozen = [at for at in missing if flow.entries[at].status is GradStatus.FROZEN]
    cut_off = {at: found for at in missing if (found := hidden_cuts(flow.entries[at]))}
    plain = [at for at in frozen if cut_off.keys().isdisjoint(flow.before([at]))]
    if plain:
        yield say("frozen_all", names=_names(flow, plain))
    beside = {at: found for at in sorted(flow.to_outputs) if (found := hidden_beside(flow.entries[at]))}
    lines = {**{at: cuts for at, cuts in cut_off.items() if at in flow.to_outputs}, **beside}
    for at, cuts in list(lines.items())[:MOST]:
        kinds = ", ".join(dict.fromkeys(one.use.kind for one in cuts))
        parts = ", ".join(dict.fromkeys(f"`{one.text}`" for one in cuts))
        yield say("hidden_cut", parts=parts, kinds=kinds, at=named(flow.entries[at]))


def _by_nature(flow: Dataflow, missing: Sequence[int]) -> Iterator[str]:
    """What can have no gradient."""
    kinds: dict[str, Callable[[Entry], bool]] = {
        "not_tensors": lambda entry: entry.status is GradStatus.NOT_TENSOR,
        "no_floats": is_of_whole_numbers,
        "never_computed": lambda entry: entry.status is GradStatus.NOT_EXECUTED,
    }
    for code, is_one in kinds.items():
        found = [at for at in missing if is_one(flow.entries[at])]
        if found:
            yield say(code, names=_names(flow, found))
