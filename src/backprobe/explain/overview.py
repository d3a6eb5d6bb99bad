"""Every cause of a missing gradient in a recording, each once, with the gradients that are missing because of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import takewhile

from backprobe.cuts.mentions import DIFFERENTIATED, Mention
from backprobe.cuts.missing_edges import HISTORY, Cut, Dataflow
from backprobe.cuts.unrecorded import hidden_beside, hidden_cuts
from backprobe.explain.about_entries import as_one, by_status, is_of_whole_numbers, is_returned, merged, with_fact
from backprobe.explain.cut_findings import cut_finding, lost_beside, part_of_line
from backprobe.explain.missing import not_connected, passing_on_many
from backprobe.explain.text import say
from backprobe.explain.user_tapes import none_given
from backprobe.explain.without_history import made_leaves
from backprobe.findings.phrasing import MOST, listed, named
from backprobe.findings.report import Finding, Report, grouped
from backprobe.record.entries import Entry, GradStatus
from backprobe.record.graph import reached
from backprobe.record.names import partition, split, strip
from backprobe.record.reasons import WRITTEN_SINCE
from backprobe.record.source import Source
from backprobe.source.user_code import package


def explain_all(flow: Dataflow) -> Report:
    """Every cause in a recording, each once, with the names whose gradients are missing because of it."""
    missing = [at for at, entry in enumerate(flow.entries) if entry.status is not GradStatus.OK]
    lost = {at for at in missing if flow.entries[at].status is GradStatus.NOT_CONNECTED}
    severed, explained, updates, spared = _severed(flow, lost)
    rest, is_replaced, returned = lost - explained, _replaced(flow), _returned_beside(flow)
    leaves = {
        at for at in rest if _is_leaf(flow, at) and not is_replaced({at}) and not returned & flow.after(at).keys()
    }
    findings = [*severed, *_of_leaves(flow, leaves)]
    known = {finding.source for finding in findings}  # of a checkpoint at a line of which something was said, no more
    in_vain = [each for each in flow.entries if each.is_because("reentrant_checkpoint") and each.cause not in known]
    faults, unfelt = _by_reason(flow, missing)
    findings += merged([by_status(flow, entry) for entry in in_vain])
    findings += [*faults, *made_leaves(flow), *none_given(flow.record)]
    beside = [*flow.lost_beside(flow.to_outputs), *flow.beside(flow.leading), *spared]
    if not _has_run(flow, missing):  # no output is known
        beside += [cut.mention for cut in flow.among(set(range(len(flow.entries)))) if not cut.is_behind]
    notes = [*lost_beside(flow, beside), *([say("assigned_between", places=listed(updates))] if updates else ()),
             *unfelt, *_without(flow, missing, rest - leaves), *_hidden(flow, missing)]  # fmt: skip
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
            found = as_one([cut_finding(flow, cut) for cut in group])
            findings.append(_inside(found, [flow.entries[cut.target].name for cut in group], _names(flow, behind)))
    if passing_on_many(flow.record):  # what the same line does to others is not followed
        explained |= {at for at in lost if flow.first_of_line.get(at) in explained}
    return findings, explained, updates, spared


def _are_leaves_reached(flow: Dataflow, lost: set[int]) -> bool:
    """Has backward come to all leaves behind these by other ways, so that nothing goes untrained for them?"""
    return all(flow.entries[at].leaves_reached for at in lost)


def _has_run(flow: Dataflow, missing: Sequence[int]) -> bool:
    """Has backward? Then what it did not come to has its reasons."""
    return len(missing) < len(flow.entries)


def _by_reason(flow: Dataflow, missing: Sequence[int]) -> tuple[list[Finding], list[str]]:
    """Gradients that could not be captured, and those of backward passes that did not run, one finding a reason.

    Those that are not faults come as notes.
    """
    entries = [flow.entries[at] for at in missing]
    opaque = [entry for entry in entries if entry.status is GradStatus.OPAQUE and not is_of_whole_numbers(entry)]
    not_run = [entry for entry in entries if entry.status is GradStatus.BACKWARD_NOT_RUN]
    groups = grouped([*opaque, *not_run], lambda entry: (entry.status, entry.why, entry.cause))
    found = [as_one([by_status(flow, entry) for entry in group]) for group in groups]
    harmless = ("opaque", "backward_not_run") if _has_run(flow, missing) else ("opaque",)
    notes = ["; ".join([one.headline, *one.facts]) for one in found if one.kind in harmless]
    return [one for one in found if one.kind not in harmless], notes


def _of_leaves(flow: Dataflow, lost: set[int]) -> Iterator[Finding]:
    """Why leaves have no gradient that no cut explains; of what is computed from them that is not said again."""

    def cause(one: tuple[int, Finding]) -> object:
        is_of_library = one[1].kind == "no_grad" and _is_of_library(one[1].source)
        return one[1].kind, None if is_of_library else one[1].source

    explained = [(at, found) for at in sorted(lost) for found in not_connected(flow, at)]
    for group in grouped([one for one in explained if one[1].kind != DIFFERENTIATED], cause):
        names = [found.name for _, found in group]
        yield _inside(group[0][1], names, _names(flow, {at for at, _ in group[1:]}))


def _is_of_library(line: Source | None) -> bool:
    return line is not None and package(line.file) is not None


def _inside(found: Finding, names: Sequence[str], missing: str) -> Finding:
    """A finding with the module in which all these names lie, if that is known, and what is missing for it."""
    paths = [partition(split(strip(name))[0], ".") for name in names]
    common = [parts[0] for parts in takewhile(lambda parts: len(set(parts)) == 1, zip(*paths, strict=False))]
    if common and _is_of_library(found.source):
        found = with_fact(found, say("inside_module", module=repr(".".join(common))))
    return with_fact(found, say("missing_for_it", names=missing)) if missing else found


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


def _without(flow: Dataflow, missing: Sequence[int], lost: set[int]) -> Iterator[str]:
    """What has no gradient, and that is no fault by itself: it is not used, frozen, or can have none.

    Examples are numbers for people, the losses of earlier steps, and values of which only the derivative is used.
    """
    derived = {at for at in lost if at in flow.derived}
    cut_off = reached([at for at in missing if hidden_cuts(flow.entries[at])], flow.consumers.__getitem__)
    status = {at: flow.entries[at].status for at in missing}
    groups = {
        "only_derivative": derived,
        "not_used": [at for at in lost - flow.before(derived) if not _is_item(flow.entries[at])],
        "frozen_all": [at for at in missing if status[at] is GradStatus.FROZEN and at not in cut_off],
        "not_tensors": [at for at in missing if status[at] is GradStatus.NOT_TENSOR],
        "no_floats": [at for at in missing if is_of_whole_numbers(flow.entries[at])],
        "never_computed": [at for at in missing if status[at] is GradStatus.NOT_EXECUTED],
    }
    for code, positions in groups.items():
        counts = Counter(strip(flow.entries[at].name).removeprefix(":") for at in sorted(positions))
        if counts:
            names = [name + (f" ({count} times)" if count > 1 else "") for name, count in counts.items()]
            yield say(code, names=listed(names))


def _is_item(entry: Entry) -> bool:
    """Is it what a loop or a comprehension goes through, and not computed?"""
    return entry.source is not None and not entry.source.expression and not entry.op


def _by_line(flow: Dataflow, cuts: Sequence[Cut]) -> list[list[Cut]]:
    """Cuts of the same line. Where the program's own line is not known, cuts of the same value are one group, and all
    under ``no_grad``: that may be one line.
    """

    def key(cut: Cut) -> object:
        line = cut.mention.line
        if flow.entries[cut.target].status is GradStatus.NO_GRAD and (line is None or _is_of_library(line)):
            return GradStatus.NO_GRAD
        return cut.target if line is None else (line.file, line.line, cut.mention.use.text)

    return grouped(cuts, key)


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


def _hidden(flow: Dataflow, missing: Sequence[int]) -> Iterator[str]:
    """Lines on the way to an output that cut off what is not recorded."""
    cut_off = {at: found for at in missing if at in flow.to_outputs and (found := hidden_cuts(flow.entries[at]))}
    beside = {at: found for at in sorted(flow.to_outputs) if (found := hidden_beside(flow.entries[at]))}
    for at, cuts in list({**cut_off, **beside}.items())[:MOST]:
        kinds = ", ".join(dict.fromkeys(one.use.kind for one in cuts))
        parts = ", ".join(dict.fromkeys(f"`{one.text}`" for one in cuts))
        yield say("hidden_cut", parts=parts, kinds=kinds, at=named(flow.entries[at]))
