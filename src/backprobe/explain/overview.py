"""The report on a whole recording: the causes of missing gradients, each once, with the gradients it explains."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence, Set
from dataclasses import replace

from backprobe.backends.call_sites import switch_around
from backprobe.cuts.mentions import DIFFERENTIATED, Mention
from backprobe.cuts.missing_edges import HISTORY, Cut, Dataflow
from backprobe.cuts.unrecorded import FIRM, Hidden, hidden_beside, hidden_cuts, may_lose
from backprobe.explain.about_entries import (
    as_one,
    by_status,
    is_of_whole_numbers,
    is_returned,
    is_said,
    merged,
    with_fact,
)
from backprobe.explain.census import constants, dropped_beside, trained_leaves, with_parameters
from backprobe.explain.census import heading as heading_of
from backprobe.explain.cut_findings import cut_finding, lost_beside, part_of_line
from backprobe.explain.faultless import (
    NOT_ASKED,
    OF_GRADIENTS,
    is_of_gradients,
    is_of_update,
    replaced_leaves,
    without_fault,
)
from backprobe.explain.loaded import loaded_steps
from backprobe.explain.missing import passing_on_many, taken_away
from backprobe.explain.raised import raised
from backprobe.explain.text import instead_of_flat, say
from backprobe.explain.undifferentiated import NOT_DIFFERENTIATED, is_undifferentiated, undifferentiated
from backprobe.explain.user_tapes import none_given
from backprobe.explain.without_history import made_leaves
from backprobe.findings.known import Known
from backprobe.findings.phrasing import MOST, listed, location, named
from backprobe.findings.report import Finding, Report, grouped
from backprobe.record.entries import Entry, GradStatus, Record
from backprobe.record.graph import reached
from backprobe.record.names import common_path, scope_of, split, strip
from backprobe.record.reasons import WRITTEN_SINCE
from backprobe.record.source import Source, expression_of, place_of
from backprobe.source.user_code import package

SAMPLING = ("normal", "bernoulli", "poisson")
"""Functions of PyTorch whose samples are connected to the parameters of the distribution, but with a zero gradient."""


def explain_all(flow: Dataflow) -> Report:
    """Report each cause found in a recording once, with the names whose gradients are missing because of it.

    Leaves that got their gradient, and leaves that need none, are left out.
    """
    missing = [at for at, entry in enumerate(flow.entries) if _lacks(entry)]
    lost = {at for at in missing if _is_lost(flow.entries[at])} - trained_leaves(flow)
    severed, explained, updates, spared = _severed(flow, lost)
    rest, is_replaced, returned = lost - explained, _replaced(flow), _returned_beside(flow)
    ends = {at for at in rest if _is_leaf(flow, at) or flow.entries[at].is_because("assigned")}
    leaves = {at for at in ends if not is_replaced({at}) and not returned & flow.after(at).keys()}
    findings = [*severed, *_of_leaves(flow, leaves), *loaded_steps(flow, missing)]
    faults, unfelt = _by_reason(flow, missing)
    findings += [*faults, *merged(made_leaves(flow))]
    asked = none_given(flow.record, findings=findings)
    failed = raised(flow.record)
    missed = undifferentiated(flow, [*findings, *asked, *failed])
    # True if all parameters got a gradient from the program itself, even if the probe could not differentiate the block
    is_trained = _is_trained(flow.record)
    findings = with_parameters(flow, [*findings, *asked, *(() if is_trained else missed)])
    findings = _each_line_once(flow.record, [*findings, *_in_vain(flow, findings)])
    beside = _unsaid(_beside(flow, missing, spared), findings, failed)
    notes = [
        *lost_beside(flow, beside),
        *([say("assigned_between", places=listed(updates))] if updates else ()),
        *(one.headline for one in missed if is_trained),
        *_sampled(flow),
        *_noted(flow.record),
        *unfelt,
        *without_fault(flow, missing, rest - leaves),
        *constants(flow.record.training),
        *dropped_beside(flow.record.training),
        *_hidden(flow, missing, {place_of(mention.place) for mention in beside}, findings),
    ]
    return Report(_heading(flow, missing, lost), (*failed, *findings), tuple(notes))


def _beside(flow: Dataflow, missing: Sequence[int], spared: Sequence[Mention]) -> list[Mention]:
    # Return mentions of lines that cut, although the gradients also flow along other paths, so that none is lost.
    beside = [*flow.lost_beside(flow.to_outputs), *flow.beside(flow.leading), *spared]
    if not _has_run(flow, missing) and not is_undifferentiated(flow.record):  # without an output, no path is known
        beside += [cut.mention for cut in flow.among(set(range(len(flow.entries)))) if not cut.is_behind]
    return beside


def _unsaid(beside: Sequence[Mention], findings: Sequence[Finding], failed: Sequence[Finding]) -> list[Mention]:
    # The mentions whose lines are named neither by a finding nor by an error.
    told = "\n".join(fact for one in failed for fact in one.facts)
    return [
        mention
        for mention in beside
        if not is_said(mention.place, findings) and not (mention.place is not None and location(mention.place) in told)
    ]


def _in_vain(flow: Dataflow, findings: Sequence[Finding]) -> list[Finding]:
    # Return findings about reentrant checkpoints without an input that requires a gradient: nothing inside them is
    # recorded for backward. Lines that a finding already points to are left out.
    found = [each for each in flow.entries if each.is_because("reentrant_checkpoint")]
    return merged([by_status(flow, each) for each in found if not is_said(each.cause, findings)])


def _lacks(entry: Entry) -> bool:
    # Does the entry lack the gradient of every output?
    return GradStatus.OK not in (entry.status, *entry.statuses.values())


def _is_lost(entry: Entry) -> bool:
    # Does the entry have a history, but no path to the output? Entries whose gradient was not requested do not count.
    return entry.status is GradStatus.NOT_CONNECTED and not entry.is_because(*NOT_ASKED)


def _each_line_once(record: Record, findings: Sequence[Finding]) -> list[Finding]:
    # Leave out a finding that does not say how its line cuts, if a tape observed the operation that cuts there. Also
    # leave it out if it is a tape's and the recording has a finding for the line. Then add what tapes observed at
    # lines that no kept finding names.
    asked = none_given(record)
    seen = [one for one in asked if Known.OBSERVED in one.known]
    told = [one for one in findings if Known.NOT_HOW not in one.known or not is_said(one.source, seen)]
    headlines = {one.headline for one in asked}
    recorded = [one for one in told if one.headline not in headlines]
    kept = [
        one for one in told if one in recorded or Known.NOT_HOW not in one.known or not is_said(one.source, recorded)
    ]
    return [*kept, *(one for one in seen if not is_said(one.source, kept))]


def _sampled(flow: Dataflow) -> list[str]:
    # Return notes on samples whose gradient with respect to the parameters is zero, as with ``torch.normal(mean,
    # deviation)``.
    found = []
    for at, entry in enumerate(flow.entries):
        if entry.op in SAMPLING and flow.edges[at] and entry.status is GradStatus.OK:
            names = listed([repr(flow.entries[each].name) for each in sorted(flow.edges[at])])
            instead = instead_of_flat(entry.op, flow.record.framework)
            found.append(say("sampled", at=named(entry), names=names, instead=instead))
    return found


def _noted(record: Record) -> list[str]:
    # Return the recording's notes on cases that may be intended, such as gradients of zero from a backward that the
    # program defines, parameters removed from the graph, loops over datasets, and functions passed to a library.
    codes = (
        "zero_by_hand",
        "zero_behind",
        "backward_unrecorded",
        "cut_beside",
        "detached_beside",
        "dataset_loop",
        "handed_on",
    )
    return [str(note) for note in record.notes if note.code in codes]


def _heading(flow: Dataflow, missing: Sequence[int], lost: set[int]) -> str:
    # The heading. It warns if a loop that TensorFlow would compile was recorded as a Python loop.
    counted = _counted(flow, missing, lost)
    is_other = any(note.code == "dataset_loop" for note in flow.record.notes)
    return say("line_by_line", counted=counted) if is_other else counted


def _counted(flow: Dataflow, missing: Sequence[int], lost: set[int]) -> str:
    training = flow.record.training
    if training is not None:
        return heading_of(training)
    there = len(flow.entries) - len(missing)
    replaced = replaced_leaves(flow)
    others = sum(_may_have_one(flow.entries[at], there > 0) for at in missing if at not in replaced)
    heading = say("overview" if there + others else "overview.none", there=there, all=there + others)
    lost = {at for at in lost - replaced if not flow.entries[at].is_because(OF_GRADIENTS)}
    return f"{heading}; {say('lost', count=len(lost))}" if lost else heading


def _may_have_one(entry: Entry, is_any: bool) -> bool:
    # Can the value have a gradient? Values that are no tensors, such as counters, and integers cannot. Frozen values,
    # such as inputs and labels, count only if nothing in the recording has a gradient.
    if entry.status in (GradStatus.NOT_TENSOR, GradStatus.NOT_EXECUTED) or is_of_whole_numbers(entry):
        return False
    if entry.is_because("is_gradient", OF_GRADIENTS, *NOT_ASKED):
        return False
    return entry.status is not GradStatus.FROZEN or not is_any


def _severed(flow: Dataflow, lost: set[int]) -> tuple[list[Finding], set[int], list[str], list[Mention]]:
    # Return findings on the lines that gradients cannot pass, and the values lost because of them. Two kinds of lines
    # are no faults and are returned separately: updates, and cuts that are probably intended.
    findings, explained, updates, spared = [], set(), [], []
    is_replaced, meant, settled = _replaced(flow), set[int](), trained_leaves(flow)
    for group in _by_line(flow, _at_own_lines(_without_outer(flow, flow.severing(flow.leading)))):
        behind = flow.cut_off_by(group) & lost
        is_silent = any(cut.is_silent for cut in group)
        if not behind and (is_silent or _are_settled(group, settled)):
            continue
        explained |= behind
        if _is_update(flow, group, is_replaced(behind)):
            updates.append(part_of_line(group[0].mention, flow.entries[group[0].target]))
        elif not behind and _is_all_behind(group):
            continue  # no differentiated value lies before it: for example, the first state of a recurrence
        elif (behind and behind <= meant) or _are_taken_for_themselves(flow, group):
            meant |= behind
        elif behind and not is_silent and _may_be_meant(flow, behind):
            spared += [cut.mention for cut in group]
        else:
            findings.append(_of_group(flow, group, behind))
    if passing_on_many(flow.record):  # it is unknown how the line uses further values of the list
        explained |= {at for at in lost if flow.first_of_line.get(at) in explained}
    return findings, explained, updates, spared


def _of_group(flow: Dataflow, group: Sequence[Cut], behind: set[int]) -> Finding:
    found = as_one([cut_finding(flow, cut) for cut in group])
    return _inside(found, [flow.entries[cut.target].name for cut in group], _names(flow, behind))


def _are_settled(group: Sequence[Cut], settled: set[int]) -> bool:
    # Do these cuts concern only values that the report on values leaves out, such as data?
    return settled.issuperset(cut.mention.source for cut in group)


def _is_all_behind(group: Sequence[Cut]) -> bool:
    return all(cut.is_behind for cut in group)


def _is_update(flow: Dataflow, group: Sequence[Cut], is_replaced: bool) -> bool:
    # Do these cuts assign to a Variable whose later version is used, or assign values computed only from gradients?
    is_assigned = all(cut.mention.use.kind == "assigned" for cut in group)
    return is_assigned and (is_replaced or all(is_of_gradients(flow, cut.mention.source) for cut in group))


def _is_all_trained(flow: Dataflow) -> bool:
    # Did every parameter of the optimizers that stepped get its gradient, without a zero or None from a tape?
    training = flow.record.training
    return training is not None and training.stepped and _is_trained(flow.record) and not flow.record.none_given


def _are_taken_for_themselves(flow: Dataflow, group: Sequence[Cut]) -> bool:
    # Do these cuts concern derivatives that the program itself detaches, or of which it uses only the sign, as
    # adversarial examples do? Such a derivative needs no history, so the cut loses nothing.
    is_returned = any(flow.entries[cut.target].is_because("is_gradient") for cut in group)
    return (is_returned or _is_all_trained(flow)) and all(_is_taken_for_itself(flow, cut) for cut in group)


def _is_taken_for_itself(flow: Dataflow, cut: Cut) -> bool:
    def onward(at: int) -> Iterator[int]:
        for target in flow.consumers[at]:
            uses = [mention.use for mention in flow.mentions[target] if mention.source == at]
            if not (uses and all(use.kind in FIRM or use.flat for use in uses)):
                yield target

    is_derivative = cut.mention.use.kind in ("derivative", DIFFERENTIATED)
    return is_derivative and flow.ends.isdisjoint(reached([cut.target], onward))


def _without_outer(flow: Dataflow, cuts: Sequence[Cut]) -> list[Cut]:
    # Remove cuts that need no finding of their own: a line without a visible cut, if a cut inside the called function
    # explains it, and tensors that a model holds but never uses.
    said = {at for at in trained_leaves(flow) if flow.entries[at].status is not GradStatus.OK}
    shown = [cut for cut in cuts if cut.mention.use.kind or cut.mention.use.flat]
    behind = [(cut, flow.before([cut.mention.source])) for cut in shown]

    def is_said(cut: Cut) -> bool:
        use, source, scope = cut.mention.use, cut.mention.source, scope_of(flow.entries[cut.target].name)
        if source in said:
            return True
        if use.kind or use.flat:
            return False
        on_way = flow.before([cut.target])
        return any(
            inner.target == cut.target
            or (inner.target in on_way and scope_of(flow.entries[inner.target].name).startswith(f"{scope}/"))
            for inner, before in behind
            if source in before
        )

    return [cut for cut in cuts if not is_said(cut)]


def _at_own_lines(cuts: Sequence[Cut]) -> list[Cut]:
    # Remove cuts at lines of libraries that the program's own line has called: they are the same cut, of the same two
    # values, if the library hands the result on as it is.
    own = {
        (cut.mention.source, cut.target) for cut in cuts if cut.mention.line and not _is_of_library(cut.mention.line)
    }
    return [cut for cut in cuts if not _is_of_library(cut.mention.line) or (cut.mention.source, cut.target) not in own]


def _may_be_meant(flow: Dataflow, lost: set[int]) -> bool:
    # Is the cut probably intentional, because its leaves get gradients along other paths, or all parameters are
    # trained?
    return _are_leaves_reached(flow, lost) or _is_all_trained(flow)


def _are_leaves_reached(flow: Dataflow, lost: set[int]) -> bool:
    # Do all leaves behind these cuts get gradients along other paths? The answer is no if the program requested the
    # gradient along exactly this path, for example for the start values of an inner loop.
    asked = {(one.output, flow.position[name]) for one in flow.record.passes for name in one.inputs}
    in_vain = {at for key, at in asked if flow.entries[at].statuses.get(key) is GradStatus.NOT_CONNECTED}
    return all(flow.entries[at].leaves_reached for at in lost) and in_vain.isdisjoint(flow.before(lost))


def _has_run(flow: Dataflow, missing: Sequence[int]) -> bool:
    # Does an entry have a gradient, so that a backward pass has run? Each entry without one then has its own reason.
    return len(missing) < len(flow.entries)


def _by_reason(flow: Dataflow, missing: Sequence[int]) -> tuple[list[Finding], list[str]]:
    # Return findings about gradients that could not be captured, and about backward passes that did not run: one for
    # each reason. Cases that are no faults become notes.
    entries = [flow.entries[at] for at in missing]
    opaque = [entry for entry in entries if entry.status is GradStatus.OPAQUE and not is_of_whole_numbers(entry)]
    not_run = [
        entry
        for entry in entries
        if entry.status is GradStatus.BACKWARD_NOT_RUN and not entry.is_because(*NOT_DIFFERENTIATED)
    ]
    groups = grouped([*opaque, *not_run], lambda entry: (entry.status, entry.why, entry.cause))
    if flow.record.training is not None:
        # leave out values that got their name after backward, as in a loop that clips gradients
        groups = [group for group in groups if not group[0].is_because("named_late")]
    found = [(group[0].status, as_one([by_status(flow, entry) for entry in group])) for group in groups]
    is_known = _is_known_not_to_run(flow, missing, opaque)
    harmless = [one for status, one in found if Known.STATUS in one.known and (is_known or status is GradStatus.OPAQUE)]
    notes = ["; ".join([one.headline, *one.facts]) for one in harmless]
    return [one for _, one in found if one not in harmless], notes


def _is_known_not_to_run(flow: Dataflow, missing: Sequence[int], opaque: Sequence[Entry]) -> bool:
    # Did some backward pass run, or is it known why none did? Functional transforms compute gradients without a call of
    # backward().
    is_functional = any(entry.is_because("func_transform") for entry in opaque)
    return _has_run(flow, missing) or bool(raised(flow.record)) or _is_all_trained(flow) or is_functional


def _is_trained(record: Record) -> bool:
    # Is it certain that each parameter got its gradient?
    training = record.training
    return training is not None and not (training.untrained or training.cleared)


def _of_leaves(flow: Dataflow, lost: set[int]) -> Iterator[Finding]:
    # Yield the reasons for leaves whose missing gradient no cut explains.
    def cause(one: tuple[int, Finding]) -> object:
        found = one[1]
        if found.source is None:  # unknown lines may differ, so the last name of the chain decides
            return found.kind, found.chain[-1:]
        return found.kind, None if found.kind == "no_grad" and _is_of_library(found.source) else found.source

    explained = [(at, found) for at in sorted(lost) for found in taken_away(flow, at)]
    for group in grouped(explained, cause):
        names = [found.name for _, found in group]
        yield _inside(group[0][1], names, _names(flow, {at for at, _ in group}) if len(group) > 1 else "")


def _is_of_library(line: Source | None) -> bool:
    return line is not None and package(line.file) is not None


def _inside(found: Finding, names: Sequence[str], missing: str) -> Finding:
    # Add to the finding the names that lack a gradient because of it. If its line is a library's, add the module that
    # contains all of ``names``, if there is one.
    common = common_path(split(strip(name))[0] for name in names)
    if common and _is_of_library(found.source):
        found = with_fact(found, say("inside_module", module=repr(common)))
    return replace(found, consequence=say("values_lost", names=missing)) if missing else found


def _is_leaf(flow: Dataflow, at: int) -> bool:
    # Is the entry an argument or parameter, whose gradient one usually wants, and was it bound before the outputs?
    entry = flow.entries[at]
    is_made = entry.op or expression_of(entry.source)
    # an argument is recorded as a view of the value that was passed, so it need not be a leaf itself
    is_leaf = entry.is_leaf or not (is_made or is_returned(flow, at))
    if entry.leaves_reached:  # backward reached all leaves behind it on other paths
        return False
    is_first = not any(flow.entries[source].status in HISTORY for source in flow.sources(at))
    return is_leaf and is_first and at <= max(flow.record.outputs, default=at)


def _returned_beside(flow: Dataflow) -> set[int]:
    # Return the values that the recorded function returns besides the differentiated output, such as the new state
    # of an optimizer.
    returned = {at for full, at in flow.record.names.items() if strip(full).startswith(":return")}
    return returned - set(flow.record.outputs)


def _by_line(flow: Dataflow, cuts: Sequence[Cut]) -> list[list[Cut]]:
    # Group cuts by their line. If the program's own line is unknown, group them by the cut value; cuts under
    # ``no_grad`` form one group, because they may belong to one line.
    def key(cut: Cut) -> object:
        line = cut.mention.line
        if flow.entries[cut.target].status is GradStatus.NO_GRAD and (line is None or _is_of_library(line)):
            return GradStatus.NO_GRAD
        return cut.target if line is None else (line.file, line.line, cut.mention.use.text)

    return grouped(cuts, key)


def _replaced(flow: Dataflow) -> Callable[[set[int]], bool]:
    # Return a function that says whether the first values of a set, which have no source in the set, were all replaced.
    # A value was replaced by a later version, or by a value of the same name that has a gradient, as in the next
    # training step. Only main names are compared, because an alias such as a loop variable belongs to many values.
    own = [strip(entry.name) for entry in flow.entries]
    there = {name for name, entry in zip(own, flow.entries, strict=True) if entry.status is GradStatus.OK}
    later = {at for at, entry in enumerate(flow.entries) if own[at] in there or entry.is_because(*WRITTEN_SINCE)}
    return lambda lost: all(at in later for at in lost if not lost & flow.sources(at).keys())


def _names(flow: Dataflow, positions: Collection[int]) -> str:
    return listed([flow.entries[at].name for at in sorted(positions) if not is_of_update(flow, at)])


def _hidden(
    flow: Dataflow, missing: Sequence[int], said: Set[tuple[str, int] | None], findings: Sequence[Finding]
) -> Iterator[str]:
    # Yield notes on calls that would cut off values that were not recorded. Only calls on a path to an output count,
    # and none on the lines ``said``.
    #
    # In a training, a call that ran without gradients is left out if no line of the program around it disabled them.
    # Such code is meant to run without gradients: it is an evaluation with a decorator, or part of a library, such as
    # the forward of an adjoint method.
    training = flow.record.training
    is_open = any(one.known & (Known.STATUS | Known.NOT_HOW) for one in findings)
    # the census then reports the parameters that lack a gradient
    if training is not None and training.untrained and not is_open:
        return
    ways = [at for at in [*missing, *sorted(flow.to_outputs)] if at in flow.to_outputs]
    hidden = {at: [*hidden_cuts(flow.entries[at]), *hidden_beside(flow.entries[at])] for at in ways}
    losing = [
        (at, cuts)
        for at, found in hidden.items()
        if (cuts := [one for one in found if may_lose(one) and place_of(one.line) not in said])
        and (training is None or not all(map(_is_switched_elsewhere, cuts)))
    ]
    groups = grouped(losing, lambda one: tuple((cut.text, cut.use.kind, cut.line) for cut in one[1]))
    for (at, cuts), *more in groups[:MOST]:
        kinds = ", ".join(dict.fromkeys(map(_kind, cuts)))
        parts = ", ".join(dict.fromkeys(f"`{one.text}`" for one in cuts))
        times = f" ({len(more) + 1} times)" if more else ""
        yield say("hidden_cut", parts=parts, kinds=kinds, at=named(flow.entries[at]) + times)


def _is_switched_elsewhere(cut: Hidden) -> bool:
    return cut.use.kind == "no_grad" and switch_around(cut.line) is None


def _kind(cut: Hidden) -> str:
    # Say how an unrecorded call may cut, with the line that disables gradients around it.
    switch = switch_around(cut.line) if cut.use.kind == "no_grad" else None
    return cut.use.kind if switch is None else f"{cut.use.kind}, {location(switch)}"
