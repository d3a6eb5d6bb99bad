"""Why an entry of a recording has no gradient: what cut the way to the output, at which line."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from backprobe.cuts import Cut, Ways
from backprobe.explain.catalogue import CAUSES
from backprobe.explain.present import lost_beside
from backprobe.findings import Finding, Report
from backprobe.hidden import hidden_cuts
from backprobe.names import strip
from backprobe.record import Entry, GradStatus, Source
from backprobe.source.mentions import has_part

CUT_BEFORE = (GradStatus.DETACHED, GradStatus.NO_GRAD, GradStatus.FROZEN, GradStatus.NOT_FLOAT, GradStatus.NOT_TENSOR)
FROZEN = ("frozen", "frozen_leaf")
LISTED = 8
GOES_ON = "what goes into and out of a module is recorded where the locals of its caller are selected, as by ':*'"
IN_VAIN = "reentrant checkpoint"  # in the reason of what one has computed that was given nothing differentiated


def explain_missing(ways: Ways, entry: Entry) -> Report:
    """Every cause that keeps a gradient from one entry."""
    at = ways.position[entry.name]
    if entry.status is GradStatus.NOT_CONNECTED:
        findings = _not_connected(ways, at)
    elif entry.status in CUT_BEFORE:
        findings = _without_history(ways, at)
    else:
        findings = [_by_status(entry)]
    heading = f"{entry.name!r} has no gradient ({entry.status})"
    is_hidden = entry.status is GradStatus.FROZEN and not any(finding.kind in FROZEN for finding in findings)
    heading += "" if is_hidden else f": {entry.reason}"
    return Report(heading, tuple(merged([*findings, *made_leaves(ways)])))


def merged(findings: Sequence[Finding]) -> list[Finding]:
    """Findings of one kind at one line, as a loop gives them, as one with the names of all."""
    groups: dict[tuple[object, ...], list[Finding]] = {}
    for finding in findings:
        line = finding.source
        place = (line.file, line.line) if line is not None else ()
        key = (finding.kind, *place, strip(finding.name))
        groups.setdefault(key, []).append(finding)
    return [_as_one(group) for group in groups.values()]


def _as_one(group: list[Finding]) -> Finding:
    names = list(dict.fromkeys(finding.name for finding in group[1:] if finding.name != group[0].name))
    if not names:
        return group[0]
    shown = ", ".join(names[:LISTED]) + (f" and {len(names) - LISTED} more" if len(names) > LISTED else "")
    return _with_fact(group[0], f"the same line does the same to {shown}")


# what keeps its history, and has no way to the output


def _not_connected(ways: Ways, at: int) -> list[Finding]:
    after = ways.after(at)
    cuts = ways.cuts(at)
    if cuts:
        return [cut_finding(ways, cut, _through(ways, after, cut)) for cut in cuts]
    return [_made_again(ways, at) or _other_call(ways, at) or _unused(ways, at, after)]


def _through(ways: Ways, after: dict[int, int | None], cut: Cut) -> tuple[str, ...]:
    return (*ways.chain(after, cut.mention.source), ways.entries[cut.target].name)


def cut_finding(ways: Ways, cut: Cut, chain: tuple[str, ...] = ()) -> Finding:
    """One cut, in words."""
    source, target = ways.entries[cut.mention.source], ways.entries[cut.target]
    use, kind = cut.mention.use, _kind(cut, source, target)
    whole = target.name if target.source is None else target.source.expression or target.source.text.strip()
    call = use.call or whole
    fields = {
        "value": repr(source.name), "target": repr(target.name), "text": f"`{use.text or whole}`", "call": f"`{call}`",
        "dtype": target.dtype, "mode": mode_of(target.reason), "function": call.partition("(")[0] or "f",
    }  # fmt: skip
    facts = [f"{source.name!r} is {_state(source)}, {target.name!r} is {_state(target)}"]
    if cut.is_behind:
        facts.append(f"{source.name!r} is cut off already: this line would cut it off again")
    if use.is_conditional:
        facts.append("the line may not have come to that part of it, which stands under a condition")
    onward = _onward(ways, cut.target)
    if onward:
        facts.append(f"from {target.name!r} the numbers go on to {onward}")
    instead = CAUSES[kind].instead(**fields)
    line = cut.mention.line or target.cause or target.source
    if kind == "checkpoint":
        line = target.cause or line
        fields["text"] = f"`{line.text.strip()}`" if line is not None else "the checkpoint"
    return Finding(kind, target.name, CAUSES[kind].headline(**fields), line, tuple(facts), chain, instead)


def _kind(cut: Cut, source: Entry, target: Entry) -> str:
    use = cut.mention.use
    if cut.is_silent:
        return "silent"
    if use.kind == "checkpoint":
        return "checkpoint" if source.status is GradStatus.FROZEN else "inside"
    if target.status is GradStatus.DETACHED and IN_VAIN in target.reason:
        return "checkpoint"
    if target.status is GradStatus.NO_GRAD and use.kind != "number":
        return "no_grad"
    if use.kind:
        return use.kind
    if target.status is GradStatus.NOT_FLOAT:
        return "not_float"
    if target.status is GradStatus.NOT_TENSOR:
        return "number"
    return "inside" if use.call and not use.is_conditional else "unknown"


def mode_of(reason: str) -> str:
    """The mode that a backend's reason speaks of."""
    return next((f"under {mode}" for mode in ("torch.inference_mode()", "torch.no_grad()") if mode in reason),
                "while gradients were switched off")  # fmt: skip


def _state(entry: Entry) -> str:
    if entry.status is GradStatus.NOT_TENSOR:
        return entry.reason.removeprefix("it is ")
    known = {
        GradStatus.OK: "differentiated", GradStatus.NOT_CONNECTED: "differentiated",
        GradStatus.BACKWARD_NOT_RUN: "differentiated", GradStatus.OPAQUE: "differentiated",
        GradStatus.NOT_FLOAT: f"of dtype {entry.dtype}",
    }  # fmt: skip
    return known.get(entry.status, str(entry.status))


def _onward(ways: Ways, at: int) -> str:
    outputs = [ways.entries[each].name for each in ways.record.outputs]
    onward = at in ways.to_outputs and at not in ways.record.outputs
    return ", ".join(map(repr, outputs[:LISTED])) if onward else ""


def _made_again(ways: Ways, at: int) -> Finding | None:
    """Another line computes the very same expression once more, of the same values."""
    entry = ways.entries[at]
    text = entry.source.expression if entry.source is not None else ""
    if not text:
        return None
    read = {read.spelled: read.name for read in entry.reads}
    for target in sorted(ways.leading):
        other = ways.entries[target]
        if target == at or other.source is None or not has_part(other.source.expression, text):
            continue
        if {spelled: name for spelled, name in _reads(other) if spelled in read} == read:
            again = {"value": repr(entry.name), "text": f"`{text}`", "again": repr(other.name)}
            chain = (*(name for name in dict.fromkeys(read.values())), entry.name)
            facts = [_made_at(entry), "each time that it runs, such an expression gives a tensor of its own"]
            return _found("made_again", entry.name, other.source, again, chain=chain, facts=facts)
    return None


def _reads(entry: Entry) -> Iterator[tuple[str, str]]:
    return ((read.spelled, read.name) for read in entry.reads)


def _other_call(ways: Ways, at: int) -> Finding | None:
    """Another entry of the same name, from another run of the same code, has a gradient."""
    entry = ways.entries[at]
    own = {strip(full) for full, position in ways.record.names.items() if position == at}
    others = {
        ways.entries[position].name: None for full, position in ways.record.names.items()
        if position != at and strip(full) in own and ways.entries[position].status is GradStatus.OK
    }  # fmt: skip
    if not others:
        return None
    named = ", ".join(f"rec[{name!r}]" for name in list(others)[:LISTED])
    fields = {"value": repr(entry.name), "outputs": _outputs(ways), "others": named}
    return _found("other_call", entry.name, entry.source, fields, facts=_ends(ways, at, ways.after(at)))


def _unused(ways: Ways, at: int, after: dict[int, int | None]) -> Finding:
    entry = ways.entries[at]
    fields = {"value": repr(entry.name), "outputs": _outputs(ways)}
    end = _last(ways, after)
    chain = ways.chain(after, end) if end != at else ()
    return _found("unused", entry.name, ways.entries[end].source, fields, chain=chain, facts=_ends(ways, at, after))


def _ends(ways: Ways, at: int, after: dict[int, int | None]) -> list[str]:
    """Where what is computed from a value ends."""
    ends = [each for each in after if each != at and not ways.consumers.get(each)]
    if not ends:
        nothing = [f"no recorded value is computed from {ways.entries[at].name!r}"]
        return nothing if ways.entries[at].source is not None else [*nothing, GOES_ON]
    named = [_made_at(ways.entries[each]) for each in ends[:LISTED]]
    more = [f"and {len(ends) - LISTED} more"] if len(ends) > LISTED else []
    return [f"what is computed from it ends there: {one}" for one in named] + more


def _last(ways: Ways, after: dict[int, int | None]) -> int:
    return next((each for each in after if not ways.consumers.get(each)), next(iter(after)))


def _made_at(entry: Entry) -> str:
    where = entry.source
    return repr(entry.name) + (f" ({where.file}:{where.line}: {where.text.strip()})" if where is not None else "")


def _outputs(ways: Ways) -> str:
    names = [repr(ways.entries[at].name) for at in ways.record.outputs]
    return ", ".join(names[:LISTED]) or "an output"


# what has no history of its own


def _without_history(ways: Ways, at: int) -> list[Finding]:
    """The cuts between differentiated values and an entry; or what it is computed from requires no gradient."""
    entry, ways = ways.entries[at], Ways(ways.record, has_run=False)
    before = ways.before([at])
    cuts = [cut for cut in ways.among(before) if not ways.edges[cut.target]] or [
        cut for cut in ways.among(before) if cut.target == at
    ]
    if cuts:
        return [cut_finding(ways, cut, ways.chain(ways.after(cut.mention.source), at)) for cut in cuts]
    hidden = hidden_findings(ways, before, at)
    if hidden:
        return hidden
    if entry.status in (GradStatus.NOT_TENSOR, GradStatus.NOT_FLOAT):
        return [_by_status(entry)]
    return [_no_history_seen(ways, at, before)]


def hidden_findings(ways: Ways, among: Iterable[int], at: int | None = None) -> list[Finding]:
    """Lines that cut off what has no entry, such as what a model gives; ``at`` is what they lead to."""
    found = []
    for each in sorted(among):
        entry = ways.entries[each]
        for text, use in hidden_cuts(entry):
            fields = {"value": f"`{text}`", "target": repr(entry.name), "text": f"`{use.text}`",
                      "mode": mode_of(entry.reason), "dtype": entry.dtype}  # fmt: skip
            facts = [f"`{text}` is not recorded: of what it had, this line lets nothing through"]
            chain = () if at is None or at == each else ways.chain(ways.after(each), at)
            found.append(_found(use.kind, entry.name, entry.source, fields, facts=facts, chain=chain))
    return found


def _no_history_seen(ways: Ways, at: int, before: set[int]) -> Finding:
    entry = ways.entries[at]
    fields = {"value": repr(entry.name), "plain": strip(entry.name).lstrip(":")}
    if entry.status is GradStatus.NO_GRAD:
        return _found("no_grad", entry.name, entry.source, {
            **fields, "target": repr(entry.name), "value": "values that are differentiated",
            "mode": mode_of(entry.reason)})  # fmt: skip
    if entry.status is GradStatus.DETACHED and IN_VAIN in entry.reason:
        text = entry.cause.text if entry.cause is not None else "the checkpoint"
        return _found("checkpoint", entry.name, entry.cause, {"text": f"`{text}`"}, facts=[entry.reason])
    if entry.status is GradStatus.DETACHED:
        return _found("unknown", entry.name, entry.source, {**fields, "target": repr(entry.name),
                      "value": "values that are differentiated"}, facts=[entry.reason])  # fmt: skip
    leaves = [each for each in sorted(before - {at}) if ways.entries[each].status is GradStatus.FROZEN
              and not ways.sources(each)]  # fmt: skip
    facts = [f"computed from {_made_at(ways.entries[each])}, which requires no gradient" for each in leaves[:LISTED]]
    if _is_returned(ways, at):
        facts.append(GOES_ON)
    chain = ways.chain(ways.after(leaves[0]), at) if leaves else ()
    kind = "frozen" if ways.sources(at) or _is_returned(ways, at) else "frozen_leaf"
    return _found(kind, entry.name, entry.source, fields, facts=facts or [entry.reason], chain=chain)


def _is_returned(ways: Ways, at: int) -> bool:
    """Is it what a module returned?"""
    own = (full for full, position in ways.record.names.items() if position == at)
    return ways.entries[at].source is None and any(strip(full).endswith(":return") for full in own)


def made_leaves(ways: Ways) -> list[Finding]:
    """Outputs that were computed from recorded values, and are leaves: made to require a gradient by themselves."""
    found = []
    for at in ways.record.outputs:
        entry = ways.entries[at]
        if entry.status is GradStatus.OK and entry.is_leaf and ways.sources(at):
            flag = ways.entries[ways.position.get(f"{entry.name}.requires_grad", at)]
            facts = [f"no edge leads from {entry.name!r} to anything that it is computed from"]
            found.append(_found("made_leaf", entry.name, flag.source, {"value": repr(entry.name)}, facts=facts))
    return found


# the rest: what the status says already


def _by_status(entry: Entry) -> Finding:
    kind = str(entry.status)
    instead = "record it where it can be seen: see the reason"
    if entry.status is GradStatus.OPAQUE and entry.cause is not None:
        kind = "overwritten"
    if entry.status is GradStatus.NOT_FLOAT:
        kind = "not_float"
    fields = {"value": repr(entry.name), "target": repr(entry.name), "reason": entry.reason, "dtype": entry.dtype,
              "instead": instead}  # fmt: skip
    return _found(kind, entry.name, entry.cause or entry.source, fields)


def _found(
    kind: str, name: str, source: Source | None, fields: dict[str, Any], *, facts: Sequence[str] = (),
    chain: tuple[str, ...] = (),
) -> Finding:  # fmt: skip
    cause = CAUSES[kind]
    return Finding(kind, name, cause.headline(**fields), source, tuple(facts), chain, cause.instead(**fields))


# a whole recording


def explain_all(ways: Ways) -> Report:
    """Every cause in a recording, each once, with the names whose gradients are missing for it."""
    missing = [at for at, entry in enumerate(ways.entries) if entry.status is not GradStatus.OK]
    lost = {at for at in missing if ways.entries[at].status is GradStatus.NOT_CONNECTED}
    findings, explained = [], set()
    for group in _by_line(ways, ways.among(ways.leading)):
        behind = ways.before([cut.mention.source for cut in group]) & lost
        explained |= behind
        finding = merged([cut_finding(ways, cut) for cut in group])[0]
        findings.append(_with_fact(finding, _missing_for_it(ways, behind)) if behind else finding)
    for at in sorted(lost - explained):
        if not any(target in lost - explained for target in ways.consumers.get(at, ())):  # the last on its way
            findings += _not_connected(ways, at)
    opaque = (GradStatus.OPAQUE, GradStatus.NOT_EXECUTED)
    findings += _by_reason([ways.entries[at] for at in missing if ways.entries[at].status in opaque])
    findings += made_leaves(ways)
    notes = [*lost_beside(ways, ways.to_outputs), *_frozen_note(ways, missing), *_by_nature(ways, missing)]
    there = len(ways.entries) - len(missing)
    heading = f"{there} of {len(ways.entries)} values have their gradient"
    return Report(heading + (f"; {len(lost)} have none though they have a history" if lost else ""),
                  tuple(findings), tuple(notes))  # fmt: skip


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
        finding = _by_status(first)
        found.append(_with_fact(finding, f"the same of {names}{more}") if others else finding)
    return found


def _with_fact(finding: Finding, fact: str) -> Finding:
    return Finding(finding.kind, finding.name, finding.headline, finding.source, (*finding.facts, fact), finding.chain,
                   finding.remedy)  # fmt: skip


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
        yield f"cut off from {of}, which is not recorded ({kinds}): {_made_at(ways.entries[at])}"


def _by_nature(ways: Ways, missing: Sequence[int]) -> Iterator[str]:
    kinds: dict[str, Callable[[Entry], bool]] = {
        "no tensors": lambda entry: entry.status is GradStatus.NOT_TENSOR,
        "neither floating point nor complex": lambda entry: entry.status is GradStatus.NOT_FLOAT,
    }
    for words, is_one in kinds.items():
        found = [at for at in missing if is_one(ways.entries[at])]
        if found:
            yield f"{words}: {_listed(ways, found)}"
