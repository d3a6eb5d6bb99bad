"""Why an entry has no history of its own: it is cut off from what is differentiated, or nothing of that is there."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from backprobe.cuts.cuts import NO_NUMBERS, Ways
from backprobe.cuts.lines import line_of
from backprobe.cuts.unrecorded import hidden_cuts, unseen_calls
from backprobe.cuts.usage import Use, uses
from backprobe.explain.cutting import cut_finding, in_vain, is_in_vain
from backprobe.explain.sentences import LISTED, by_status, finding_of, is_returned, made_at, mode_of
from backprobe.findings.report import Finding
from backprobe.record.entries import Entry, GradStatus
from backprobe.record.names import strip

GOES_ON = "what goes into and out of a module is recorded where the locals of its caller are selected, as by ':*'"


def without_history(ways: Ways, at: int) -> list[Finding]:
    """The cuts between differentiated values and an entry; or what it is computed from requires no gradient."""
    entry, ways = ways.entries[at], Ways(ways.record, has_run=False)
    before = ways.before([at])
    severing = ways.severing(before, {at})
    cuts = [cut for cut in severing if not ways.edges[cut.target]] or [cut for cut in severing if cut.target == at]
    if cuts:
        return [cut_finding(ways, cut, ways.chain(ways.after(cut.mention.source), at)) for cut in cuts]
    hidden = hidden_findings(ways, before, to=at)
    if hidden:
        return hidden
    if entry.status in (GradStatus.NOT_TENSOR, GradStatus.NOT_FLOAT):
        return [by_status(ways, entry)]
    return [_no_history_seen(ways, at, before)]


def hidden_findings(ways: Ways, among: Iterable[int], *, to: int | None = None, of: int | None = None) -> list[Finding]:
    """Lines that cut off what has no entry, such as what a model gives.

    ``to`` is what they lead to. ``of`` is a value: only lines in which its name stands where it was not seen, as in a
    function inside of the one that it belongs to.
    """
    found = []
    for each in sorted(among):
        entry = ways.entries[each]
        for text, use, place in hidden_cuts(entry):
            line = line_of(place, use.text)
            if of is not None and text != _name_in(ways, of, each):
                continue
            fields = {"value": f"`{text}`", "plain": text, "target": repr(entry.name), "text": f"`{use.text}`",
                      "mode": mode_of(entry.why), "dtype": entry.dtype}  # fmt: skip
            facts = [f"`{text}` is not recorded: of what it had, this line lets nothing through"]
            if of is not None:
                facts = [f"`{text}` stands in that line, and is this value unless another has the same name there"]
            chain = () if to is None or to == each else ways.chain(ways.after(each), to)
            said = "copied_unseen" if use.kind == "copied" and text.isidentifier() else use.kind
            one = finding_of(ways, said, entry.name, line, fields, facts=facts, chain=chain)
            found.append(replace(one, kind=use.kind))
    return found


def _name_in(ways: Ways, at: int, line: int) -> str:
    """What a value is called where another is computed: ``self.weight`` in the module that has that parameter."""
    name = strip(ways.entries[at].name)
    module, _, last = name.rpartition(".")
    is_own = ways.entries[at].source is None and module in scopes_of(ways, line)
    return f"self.{last}" if is_own else name.rpartition(":")[2]


def scopes_of(ways: Ways, at: int) -> set[str]:
    """The modules and functions in which a value has a name, without their counts."""
    return {strip(full).partition(":")[0] for full, position in ways.record.names.items() if position == at}


def _no_history_seen(ways: Ways, at: int, before: set[int]) -> Finding:
    entry = ways.entries[at]
    fields = {"value": repr(entry.name), "plain": strip(entry.name).lstrip(":")}
    if entry.status is GradStatus.NO_GRAD:
        return finding_of(ways, "no_grad", entry.name, entry.source, {
            **fields, "target": repr(entry.name), "value": "values that are differentiated",
            "mode": mode_of(entry.why)})  # fmt: skip
    if is_in_vain(entry):
        return in_vain(ways, entry)
    if entry.status is GradStatus.DETACHED and _uses_no_number(entry):
        mentioned = ", ".join(repr(read.name) for read in entry.reads)
        facts = [f"of {mentioned} the shape and the like are used, and no number"]
        return finding_of(ways, "frozen_leaf", entry.name, entry.source, fields, facts=facts)
    if entry.status is GradStatus.DETACHED:
        return finding_of(ways, "unknown", entry.name, entry.source, {**fields, "target": repr(entry.name),
                      "value": "values that are differentiated"}, facts=[entry.reason])  # fmt: skip
    leaves = [each for each in sorted(before - {at}) if ways.entries[each].status is GradStatus.FROZEN
              and not ways.sources(each)]  # fmt: skip
    facts = [f"computed from {made_at(ways.entries[each])}, which requires no gradient" for each in leaves[:LISTED]]
    if is_returned(ways, at):
        facts.append(GOES_ON)
    chain = ways.chain(ways.after(leaves[0]), at) if leaves else ()
    parts = [f"`{text}`" for text in unseen_calls(entry)]
    if parts:
        fields["text"] = ", ".join(parts)
        facts.append(f"{fields['text']} is not recorded, and gives nothing that requires a gradient")
        found = finding_of(ways, "frozen_unseen", entry.name, entry.source, fields, facts=facts, chain=chain)
        return replace(found, kind="frozen")
    kind = "frozen" if ways.sources(at) or is_returned(ways, at) else "frozen_leaf"
    return finding_of(ways, kind, entry.name, entry.source, fields, facts=facts or [entry.reason], chain=chain)


def _uses_no_number(entry: Entry) -> bool:
    """Does the line of an entry ask of all that it mentions only for the shape and the like?"""
    text = entry.source.expression if entry.source is not None else ""
    known = [use for read in entry.reads for use in uses(text, read.spelled) or (Use(),)]
    return bool(known) and all(use.kind == NO_NUMBERS for use in known)


def made_leaves(ways: Ways) -> list[Finding]:
    """Outputs that were computed from recorded values, and are leaves: made to require a gradient by themselves."""
    found = []
    for at in ways.record.outputs:
        entry = ways.entries[at]
        if entry.status is GradStatus.OK and entry.is_leaf and ways.sources(at):
            flag = ways.entries[ways.position.get(f"{entry.name}.requires_grad", at)]
            facts = [f"no edge leads from {entry.name!r} to anything that it is computed from"]
            found.append(
                finding_of(ways, "made_leaf", entry.name, flag.source, {"value": repr(entry.name)}, facts=facts)
            )
    return found
