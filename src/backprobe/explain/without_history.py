"""Explains entries without a history: a line cut them off, or they never depended on a differentiated value."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from backprobe.cuts.cutting_operations import Use, uses
from backprobe.cuts.lines import line_of
from backprobe.cuts.mentions import NO_NUMBERS
from backprobe.cuts.missing_edges import Dataflow
from backprobe.cuts.unrecorded import Hidden, hidden_cuts, unseen_calls
from backprobe.explain.about_entries import about, by_status, is_none, is_returned, scopes_of
from backprobe.explain.cut_findings import cuts_before, hooks
from backprobe.explain.instead import drawn_smoothly
from backprobe.explain.text import say
from backprobe.findings.known import Known
from backprobe.findings.phrasing import MOST, named, quoted
from backprobe.findings.report import Finding
from backprobe.record.entries import Entry, GradStatus
from backprobe.record.names import strip
from backprobe.record.source import expression_of

DIFFERENTIATED = "values that are differentiated"


def without_history(flow: Dataflow, at: int) -> list[Finding]:
    """The findings on why an entry has no history: the cuts before it, or else what its status and inputs show."""
    entry, flow = flow.entries[at], Dataflow.of(flow.record, has_run=False)
    if is_none(entry):  # None is not computed from anything, so no line can cut it off
        return [by_status(flow, entry)]
    before = flow.before([at])
    severing = flow.severing(before, {at})
    cuts = [cut for cut in severing if not flow.edges[cut.target]] or [cut for cut in severing if cut.target == at]
    if found := cuts_before(flow, at, cuts) or hidden_findings(flow, before, to=at):
        return found
    if entry.status in (GradStatus.NOT_TENSOR, GradStatus.NOT_FLOAT):
        return [by_status(flow, entry)]
    return [_no_history_seen(flow, at, before)]


def hidden_findings(
    flow: Dataflow, among: Iterable[int], *, to: int | None = None, of: int | None = None
) -> list[Finding]:
    """Return findings at lines that cut off unrecorded values, such as a model's result.

    ``to`` is the entry that these lines lead to. With ``of``, only lines are returned that mention this value by name
    although no recorded edge shows the use, such as lines in an inner function.
    """
    found = []
    for each in sorted(among):
        for hidden in hidden_cuts(flow.entries[each]):
            text = hidden.text
            if of is not None and text != _name_in(flow, of, each):
                continue
            chain = () if to is None or to == each else flow.chain(flow.after(each), to)
            fact = say("hidden_to" if of is None else "hidden_of", value=f"`{text}`")
            found.append(hidden_finding(flow, each, hidden, fact, chain))
    return found


def hidden_finding(flow: Dataflow, at: int, hidden: Hidden, fact: str, chain: tuple[str, ...] = ()) -> Finding:
    """Make the finding at a line that computes the entry ``at`` and cuts off an unrecorded value."""
    value = f"`{hidden.text}`"
    return about(
        flow,
        hidden.use.kind,
        flow.entries[at],
        line_of(hidden.line, hidden.use.text),
        facts=[fact],
        chain=chain,
        value=value,
        plain=hidden.text,
        text=f"`{hidden.use.text}`",
        converted=value,
    )


def _name_in(flow: Dataflow, at: int, line: int) -> str:
    # Return the name of a value in the scope of another entry: ``self.weight`` inside the module that has the
    # parameter.
    name = strip(flow.entries[at].name)
    module, _, last = name.rpartition(".")
    is_own = flow.entries[at].source is None and module in scopes_of(flow, line)
    return f"self.{last}" if is_own else name.rpartition(":")[2]


def _no_history_seen(flow: Dataflow, at: int, before: set[int]) -> Finding:
    entry = flow.entries[at]
    first = _inherited(flow, at) if entry.is_because("inherited") else at
    if first != at:
        return replace(_no_history_seen(flow, first, before), chain=flow.chain(flow.after(first), at))
    if entry.status is GradStatus.NO_GRAD:
        return about(flow, "no_grad", entry, entry.source, value=DIFFERENTIATED)
    if entry.is_because("reentrant_checkpoint", "nothing_given"):
        return by_status(flow, entry)
    if entry.is_because("shape_only") or (entry.status is GradStatus.DETACHED and _uses_no_number(entry)):
        facts = [say("shape_only", names=quoted([read.name for read in entry.reads]))]
        return about(flow, "frozen_leaf", entry, entry.source, facts=facts, known=Known.STATUS)
    if entry.status is GradStatus.DETACHED:
        known = Known.STATUS | Known.NOT_HOW
        return about(flow, "unknown", entry, entry.source, value=DIFFERENTIATED, facts=[entry.reason], known=known)
    return _frozen(flow, at, before)


def _frozen(flow: Dataflow, at: int, before: set[int]) -> Finding:
    # Make the finding that the inputs of an entry require no gradient.
    entry = flow.entries[at]
    leaves = [
        each
        for each in sorted(before - {at})
        if flow.entries[each].status is GradStatus.FROZEN and not flow.sources(each)
    ]
    facts = [say("from_frozen", at=named(flow.entries[each])) for each in leaves[:MOST]]
    if is_returned(flow, at):
        facts += [say("callers"), *filter(None, [hooks(flow)])]
    chain = flow.chain(flow.after(leaves[0]), at) if leaves else ()
    text = ", ".join(f"`{text}`" for text in unseen_calls(entry))
    if text:
        return about(flow, "frozen.call", entry, entry.source, facts=facts, chain=chain, text=text)
    code = "frozen" if flow.sources(at) or is_returned(flow, at) else "frozen_leaf"
    known = Known.NOTHING if facts else Known.STATUS
    found = about(flow, code, entry, entry.source, facts=facts or [entry.reason], chain=chain, known=known)
    return _drawn(found, [entry, *(flow.entries[each] for each in leaves)])


def _drawn(found: Finding, leaves: Iterable[Entry]) -> Finding:
    # Change the remedy of a finding about frozen leaves if one of them is a sample from a distribution.
    texts = (entry.source.expression for entry in leaves if entry.source is not None)
    drawn = next(filter(None, map(drawn_smoothly, texts)), None)
    if drawn is None:
        return found
    said = say("frozen_drawn", drawn_from=drawn[0], smooth=drawn[1], otherwise=found.remedy)
    return replace(found, remedy=said)


def _inherited(flow: Dataflow, at: int) -> int:
    # The value with which the missing history began: inputs of the same status are followed back.
    while flow.entries[at].is_because("inherited"):
        status = flow.entries[at].status
        before = next((one for one in flow.sources(at) if one < at and flow.entries[one].status is status), at)
        if before == at:
            return at
        at = before
    return at


def _uses_no_number(entry: Entry) -> bool:
    # Does the entry's line use only the shape, dtype and similar attributes of everything that it mentions?
    text = expression_of(entry.source)
    known = [use for read in entry.reads for use in uses(text, read.spelled) or (Use(),)]
    return bool(known) and all(use.kind == NO_NUMBERS for use in known)


def made_leaves(flow: Dataflow) -> list[Finding]:
    """Return findings on outputs that were computed from recorded values, but then set to require a gradient."""
    found = []
    for at in flow.record.outputs:
        entry = flow.entries[at]
        if entry.status is GradStatus.OK and entry.is_leaf and flow.sources(at):
            flag = flow.entries[flow.position.get(f"{entry.name}.requires_grad", at)]
            found.append(about(flow, "made_leaf", entry, flag.source))
    return found
