"""Explains a gradient that exists: for example, that it is zero everywhere, and which line made it zero."""

from __future__ import annotations

from collections import deque
from typing import Any

from backprobe.backends.dialects import dialect_of
from backprobe.backends.tensors import Arrays
from backprobe.cuts.cutting_operations import Use, flat_operation
from backprobe.cuts.lines import line_of
from backprobe.cuts.missing_edges import Cut, Dataflow
from backprobe.cuts.parsed import parsed_expression
from backprobe.cuts.unrecorded import CERTAIN
from backprobe.explain.about_entries import about, is_said, merged
from backprobe.explain.all_zero import is_zero
from backprobe.explain.cut_findings import cut_finding, lost_beside
from backprobe.explain.own_rules import rules_in
from backprobe.explain.text import instead_of_flat, say
from backprobe.explain.user_tapes import none_given
from backprobe.findings.phrasing import listed, location, plural
from backprobe.findings.report import Finding, Report
from backprobe.record.brief import brief
from backprobe.record.entries import Entry, GradStatus
from backprobe.record.reasons import Note
from backprobe.record.source import expression_of


def explain_present(flow: Dataflow, entry: Entry, arrays: Arrays) -> Report:
    """The report on an entry that has its gradient."""
    at = flow.position[entry.name]
    findings = [*_overwritten(flow, at), *_zero(flow, at, arrays)]
    after = flow.after(at).keys() & flow.to_outputs
    cut = [cut.mention for cut in flow.among(after) if not cut.is_behind and not cut.is_silent]
    beside = [one for one in (*flow.lost_beside(after), *cut) if not is_said(one.place, findings)]
    lost = lost_beside(flow, beside)
    asked = none_given(flow.record, entry.name)
    code = "present_not_on_tape" if asked else "present_but" if findings else "present_partly" if lost else "present"
    return Report(say(code, value=repr(entry.name)), (*asked, *findings), (*lost, *_notes(flow, entry, arrays)))


def _notes(flow: Dataflow, entry: Entry, arrays: Arrays) -> list[str]:
    notes = []
    if entry.aliases:
        notes.append(say("aliases", names=listed(entry.aliases, len(entry.aliases))))
    is_computed = flow.edges[flow.position[entry.name]] or expression_of(entry.source)
    if is_computed and not entry.is_leaf and dialect_of(flow.record.framework).runs_backward:
        notes.append(say("own_grad", value=repr(entry.name)))
    known = arrays.summary(entry.held_grad)
    if known is not None and known.nonfinite:
        notes.append(say("not_finite", count=known.nonfinite, size=known.size))
    return [*notes, *map(str, flow.record.notes)]


def _overwritten(flow: Dataflow, at: int) -> list[Finding]:
    # Return findings on later values that were modified without being recorded: the gradient belongs to the new
    # numbers.
    after = flow.after(at)
    return [
        about(flow, "overwritten", entry, entry.cause, facts=[entry.reason], chain=flow.chain(after, each))
        for each in after
        if (entry := flow.entries[each]).status is GradStatus.OPAQUE
        and (entry.cause is not None or entry.is_because("data_replaced"))
        and each in flow.leading
        and not entry.is_because("written_past_unsaved")
    ]


def _zero(flow: Dataflow, at: int, arrays: Arrays) -> list[Finding]:
    # Find where a gradient that is zero everywhere became zero: at the nearest later values that have a nonzero
    # gradient, at a sum of contributions that may cancel, or at a cut inside a loop.
    if not is_zero(arrays, flow.entries[at].held_grad):
        return []
    found: list[Finding] = []
    before: dict[int, int | None] = {at: None}
    pending = deque([at])
    while pending:
        source = pending.popleft()
        added = _added_up(flow, source, before, arrays)
        found += added
        for target in flow.consumers[source]:
            entry = flow.entries[target]
            if source not in flow.edges[target] or target in before:
                continue
            before[target] = source
            if entry.status is not GradStatus.OK:
                found += [cut_finding(flow, cut, flow.chain(before, target)) for cut in _cut_in_a_loop(flow, target)]
            elif is_zero(arrays, entry.held_grad):
                pending.append(target)
            elif not added:
                found.append(_became_zero(flow, source, target, before, arrays))
    return merged(found)


def _contribution(entry: Entry, name: str) -> Any:
    # What flows back from an entry to one of its inputs; None if it was not requested or does not exist.
    return next((edge.contribution for edge in entry.inputs if edge.name == name), None)


def _added_up(flow: Dataflow, source: int, before: dict[int, int | None], arrays: Arrays) -> list[Finding]:
    # Return a finding if a gradient is the sum of several contributions, none known to be 0, which may cancel.
    value = flow.entries[source]
    parts = [
        target
        for target in flow.consumers[source]
        if source in flow.edges[target]
        and (entry := flow.entries[target]).status is GradStatus.OK
        and not is_zero(arrays, entry.held_grad)
        and not (_is_flat(flow, source, target) or is_zero(arrays, _contribution(entry, value.name)))
    ]
    if len(parts) < 2 or Note("hooked", about=value.name) in flow.record.notes:
        return []
    names = [repr(flow.entries[target].name) for target in parts]
    facts = [
        say("contribution", target=repr(entry.name), contribution=brief(held))
        for entry in map(flow.entries.__getitem__, parts)
        if (held := _contribution(entry, value.name)) is not None
    ]
    code = "added_up.parts" if len(facts) == len(parts) else "added_up"
    return [
        about(
            flow,
            code,
            value,
            value.source,
            facts=facts or [say("may_cancel")],
            first=names[0],
            chain=flow.chain(before, source),
            targets=listed(names),
        )
    ]


def _is_flat(flow: Dataflow, source: int, target: int) -> bool:
    # Does the operation or the line show that no gradient flows back along this edge, or may a derivative rule of the
    # program block it?
    entry = flow.entries[target]
    return bool(
        instead_of_flat(entry.op, flow.record.framework)
        or _of_part(flow, source, target)
        or rules_in(flow.record, entry)
        or _cut_for_certain(flow, source, target)
    )


def _cut_for_certain(flow: Dataflow, source: int, target: int) -> Use | None:
    return next(
        (mention.use for mention in flow.mentions[target] if mention.source == source and mention.use.kind in CERTAIN),
        None,
    )


def _cut_in_a_loop(flow: Dataflow, at: int) -> list[Cut]:
    # The cuts after a value in a loop. Such a cut sends zeros back to everything that flows into the loop.
    return [cut for cut in flow.among({*flow.after(at)}) if not cut.is_behind] if flow.entries[at].axes else []


def _became_zero(flow: Dataflow, source: int, target: int, before: dict[int, int | None], arrays: Arrays) -> Finding:
    # Make the finding about a derivative that is 0. If the program set a hook on the value, it is unknown what the hook
    # received.
    value, entry = flow.entries[source], flow.entries[target]
    facts = [say("became_zero", target=repr(entry.name), value=repr(value.name))]
    if Note("hooked", about=value.name) in flow.record.notes:
        return about(flow, "hooked", value, value.source, facts=facts, chain=flow.chain(before, source))
    if is_zero(arrays, entry.held):
        facts.append(say("value_is_zero", target=repr(entry.name)))
    others = [each for each in flow.consumers[source] if source in flow.edges[each] and each != target]
    if others:
        facts.append(say("also_into", value=repr(value.name), others=plural(len(others), "other value")))
    line = None if entry.source is None else line_of(entry.source, entry.source.expression)
    rules = rules_in(flow.record, entry)
    facts += rules
    flat = instead_of_flat(entry.op, flow.record.framework) or _of_part(flow, source, target)
    cut = _cut_for_certain(flow, source, target)
    if cut is not None and not flat:
        facts.append(say("cut_beside", text=f"`{cut.text}`"))
        flat = say("without_cut", text=f"`{cut.text}`", partials=say("see_partials"))
    instead = say("see_rule") if rules else flat or say("see_partials")
    return about(
        flow,
        "zero_derivative",
        entry,
        line,
        facts=facts,
        chain=flow.chain(before, target),
        value=repr(value.name),
        instead=instead,
    )


def _of_part(flow: Dataflow, source: int, target: int) -> str:
    # The remedy for a flat part of a line, if the line uses the value only inside that part.
    flats = {mention.use.flat for mention in flow.mentions[target] if mention.source == source}
    text = flats.pop() if len(flats) == 1 else ""
    return instead_of_flat(flat_operation(parsed_expression(text)), flow.record.framework)


def zero_by_rule(flow: Dataflow, arrays: Arrays) -> list[str]:
    """Return notes on functions with their own derivative rule in which a gradient becomes zero everywhere."""
    return [
        "; ".join([found.headline, *([location(found.source)] if found.source else ()), *found.facts[1:]])
        for target, entry in enumerate(flow.entries)
        if rules_in(flow.record, entry) and not is_zero(arrays, entry.held_grad)
        for source in flow.edges[target]
        if is_zero(arrays, flow.entries[source].held_grad)
        for found in [_became_zero(flow, source, target, {source: None, target: source}, arrays)]
    ]
