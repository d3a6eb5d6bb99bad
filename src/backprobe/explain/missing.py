"""Why an entry of a recording has no gradient: what cut the way to the output, at which line."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from backprobe.carried import LIMIT
from backprobe.cuts import DIFFERENTIATED, NO_NUMBERS, Cut, Ways
from backprobe.explain.beside import lost_beside
from backprobe.explain.catalogue import CAUSES, instead_of_flat
from backprobe.explain.tapes import none_given
from backprobe.findings import Finding, Report
from backprobe.hidden import WRITTEN_SINCE, hidden_cuts, unseen_calls
from backprobe.names import split, strip
from backprobe.record import LINES_OF_THEIR_OWN, Entry, GradStatus, Source
from backprobe.source.mentions import POSITIONS, Use, has_part, unread, uses
from backprobe.source.places import line_of

CUT_BEFORE = (GradStatus.DETACHED, GradStatus.NO_GRAD, GradStatus.FROZEN, GradStatus.NOT_FLOAT, GradStatus.NOT_TENSOR)
FROZEN = ("frozen", "frozen_leaf")
LISTED = 8
COUNT = re.compile(r"#\d+")
GOES_ON = "what goes into and out of a module is recorded where the locals of its caller are selected, as by ':*'"
INHERITED = "from a value that is itself"  # in the reason of what has its status from what it was computed from
MODES = {
    "torch.inference_mode()": "under torch.inference_mode()",
    "torch.no_grad()": "under torch.no_grad() or set_grad_enabled(False)",  # which PyTorch does not tell apart
}
IN_VAIN = "reentrant checkpoint"  # in the reason of what one has computed that was given nothing differentiated


def explain_missing(ways: Ways, entry: Entry) -> Report:
    """Every cause that keeps a gradient from one entry."""
    at = ways.position[entry.name]
    if entry.status is GradStatus.NOT_CONNECTED:
        findings = not_connected(ways, at)
    elif entry.status in CUT_BEFORE:
        findings = _without_history(ways, at)
    else:
        findings = [by_status(ways, entry)]
    heading = f"{entry.name!r} has no gradient ({entry.status})"
    is_frozen = any(finding.kind in FROZEN for finding in findings)
    is_otherwise = {GradStatus.FROZEN: not is_frozen, GradStatus.DETACHED: is_frozen}.get(entry.status, False)
    heading += "" if is_otherwise else f": {entry.reason}"
    beside = ways.beside(ways.after(at).keys() & ways.leading) if entry.status is GradStatus.NOT_CONNECTED else []
    findings = merged([*findings, *made_leaves(ways)]) + none_given(ways.record, entry.name)
    return Report(heading, tuple(findings), tuple(lost_beside(ways, beside)))


def merged(findings: Sequence[Finding]) -> list[Finding]:
    """Findings that say the same of one line, as of each turn of a loop, as one with the names of all."""
    groups: dict[tuple[object, ...], list[Finding]] = {}
    for finding in findings:
        line = finding.source
        place = (line.file, line.line) if line is not None else ()
        is_of_name = line is None or repr(finding.name) in finding.headline
        key = (finding.kind, place, strip(finding.name) if is_of_name else COUNT.sub("", finding.headline))
        groups.setdefault(key, []).append(finding)
    return [_as_one(group) for group in groups.values()]


def _as_one(group: list[Finding]) -> Finding:
    names = list(dict.fromkeys(finding.name for finding in group[1:] if finding.name != group[0].name))
    if not names:
        return group[0]
    shown = ", ".join(names[:LISTED]) + (f" and {len(names) - LISTED} more" if len(names) > LISTED else "")
    return with_fact(group[0], f"the same line does the same to {shown}")


# what keeps its history, and has no way to the output


def not_connected(ways: Ways, at: int) -> list[Finding]:
    after = ways.after(at)
    cuts = ways.cuts(at)
    if cuts:
        return [cut_finding(ways, cut, _through(ways, after, cut)) for cut in cuts]
    differentiated = _differentiated(ways, at, after)
    if differentiated is not None:
        return [differentiated]
    not_run = _not_run(ways, at) if len(after) == 1 else None
    if not_run is not None:
        return [not_run]
    if WRITTEN_SINCE in ways.entries[at].reason:
        return [_written_since(ways, at, after)]
    again = _made_again(ways, at)
    found = [] if again else _out_of_sight(ways, at, after) or _as_others(ways, at)
    if found or again:
        return [again] if again else found
    other = _other_call(ways, at) or _doubted(ways, at, after)
    left_out = ways.left_out(at) if other is None else None
    if left_out is not None:
        return [cut_finding(ways, left_out, _through(ways, after, left_out))]
    return [other or _unused(ways, at, after)]


def _differentiated(ways: Ways, at: int, after: dict[int, int | None]) -> Finding | None:
    """The first line on the way to an output that goes on from the derivative of a value, as a gradient penalty."""
    first = next((ways.derived[each] for each in after if each in ways.derived), None)
    if first is None or first.target not in ways.leading:
        return None
    entry, target = ways.entries[first.source], ways.entries[first.target]
    fields = {"value": repr(entry.name), "target": repr(target.name), "text": f"`{first.use.text}`"}
    facts = [f"no edge leads from {target.name!r} back to {entry.name!r}, and none needs to"]
    chain = (*ways.chain(after, first.source), target.name)
    return _found(ways, "differentiated", target.name, first.line or target.source, fields, facts=facts, chain=chain)


def _not_run(ways: Ways, at: int) -> Finding | None:
    """Is it a parameter of a module that did not run, or that lies in one?"""
    entry = ways.entries[at]
    for module in ways.modules_above(at):
        if ways.entries[module].status is GradStatus.NOT_EXECUTED:
            fields = {"value": repr(entry.name), "module": repr(ways.entries[module].name)}
            return replace(_found(ways, "module_not_run", entry.name, None, fields), kind="not_executed")
    return None


def _written_since(ways: Ways, at: int, after: dict[int, int | None]) -> Finding:
    """The output may be computed from a later version, as in the steps of training after the first."""
    entry = ways.entries[at]
    fields = {"value": repr(entry.name), "outputs": _outputs(ways)}
    return _found(ways, "written_since", entry.name, entry.source, fields, facts=_ends(ways, at, after))


def _doubted(ways: Ways, at: int, after: dict[int, int | None]) -> Finding | None:
    """The first line on the way to an output whose result does not lead back, and that may have no use of the value."""
    first = next(iter(ways.doubted(at)), None)
    if first is None:
        return None
    entry, target = ways.entries[first.source], ways.entries[first.target]
    fields = {"value": repr(entry.name), "target": repr(target.name)}
    facts = ["that part of the line may have no use of it, as an index has none"]
    chain = (*ways.chain(after, first.source), target.name)
    return _found(ways, "unknown", target.name, first.place or target.source, fields, facts=facts, chain=chain)


def _out_of_sight(ways: Ways, at: int, after: dict[int, int | None]) -> list[Finding]:
    """Cuts where the way to the output is not seen to its end: of what leaves a function, and of a closure's names."""
    entries = ways.entries
    dead = [cut for cut in ways.among({*after}) if entries[cut.target].status in LINES_OF_THEIR_OWN]
    left = [cut for cut in dead if _leaves(ways, cut.target)]
    if left:
        return [cut_finding(ways, cut, _through(ways, after, cut)) for cut in left]
    if _is_partial(ways, _last(ways, after)):
        found = [cut_finding(ways, cut, _through(ways, after, cut)) for cut in dead]
        return [
            with_fact(finding, f"the way on from {finding.name!r} was not selected to its end") for finding in found
        ]
    return hidden_findings(ways, ways.leading, of=at)


def _name_in(ways: Ways, at: int, line: int) -> str:
    """What a value is called where another is computed: ``self.weight`` in the module that has that parameter."""
    name = strip(ways.entries[at].name)
    module, _, last = name.rpartition(".")
    is_own = ways.entries[at].source is None and module in _scopes(ways, line)
    return f"self.{last}" if is_own else name.rpartition(":")[2]


def _scopes(ways: Ways, at: int) -> set[str]:
    """The modules and functions in which a value has a name, without their counts."""
    return {strip(full).partition(":")[0] for full, position in ways.record.names.items() if position == at}


def _as_others(ways: Ways, at: int) -> list[Finding]:
    """What cuts off others that the same line made, where a list passes on more values than are followed."""
    limits = [note for note in ways.record.notes if LIMIT in note]
    first = ways.first_of_line.get(at) if limits else None
    if first is None or not (cuts := ways.cuts(first)):
        return []
    after = ways.after(first)
    facts = f"so it is of {ways.entries[first].name!r}, which the same line made; {limits[0]}"
    return [with_fact(cut_finding(ways, cut, _through(ways, after, cut)), facts) for cut in cuts]


def _leaves(ways: Ways, at: int) -> bool:
    """Is it kept or given where others may take it: what is returned, attributes and items of objects?"""
    full = [strip(name) for name, position in ways.record.names.items() if position == at]
    return any(name.endswith(":return") or "." in name.rpartition(":")[2] or "[" in name for name in full)


def _is_partial(ways: Ways, at: int) -> bool:
    """Is there a name that was not selected, where a value has its own? The value may go into that."""
    if ways.entries[at].source is None:
        return False
    scopes = {split(strip(name))[0] for name, position in ways.record.names.items() if position == at}
    return any(split(name)[0] in scopes for name in ways.record.unseen)


def _through(ways: Ways, after: dict[int, int | None], cut: Cut) -> tuple[str, ...]:
    return (*ways.chain(after, cut.mention.source), ways.entries[cut.target].name)


def cut_finding(ways: Ways, cut: Cut, chain: tuple[str, ...] = ()) -> Finding:
    """One cut, in words."""
    source, target = ways.entries[cut.mention.source], ways.entries[cut.target]
    use, kind, framework = cut.mention.use, _kind(cut, source, target, ways.record.framework), ways.record.framework
    whole = target.name if target.source is None else target.source.expression or target.source.text.strip()
    call = use.call or whole
    flat = instead_of_flat((use.flat or call).partition("(")[0].rpartition(".")[2], framework)
    fields = {
        "value": repr(source.name), "plain": strip(source.name).rpartition(":")[2], "target": repr(target.name),
        "text": f"`{use.text or whole}`", "call": f"`{call}`",
        "dtype": target.dtype, "mode": mode_of(target.reason), "function": call.partition("(")[0] or "f",
        "instead": flat,
    }  # fmt: skip
    facts = [f"{source.name!r} is {_state(source)}, {target.name!r} is {_state(target)}"]
    if cut.is_behind:
        facts.append(f"{source.name!r} is cut off already: this line would cut it off again")
    if use.is_conditional:
        facts.append("the line may not have come to that part of it, which stands under a condition")
    if cut.target in ways.turns:
        facts.append("how often the loop runs may depend on it")
    onward = _onward(ways, cut.target)
    if onward:
        facts.append(f"from {target.name!r} the numbers go on to {onward}")
    followed = _followed(ways, call) if kind == "inside" else ""
    if followed and target.source is not None and target.source != cut.mention.line:
        facts.append(f"what it gives is made in {followed}, {made_at(target)}")
    remedy, fields["function"] = "inside_recorded" if followed else kind, followed or fields["function"]
    instead = CAUSES[remedy].instead(framework, **fields)
    instead = flat or instead if kind == "inside" else instead
    line = cut.mention.place or target.cause or target.source
    if kind == "checkpoint":
        line = target.cause or line
    if kind in ("checkpoint", "limited"):  # which are no part of the line that computes the value
        fields["text"] = f"`{line.text.strip()}`" if line is not None else "the checkpoint"
    return Finding(kind, target.name, CAUSES[kind].headline(**fields), line, tuple(facts), chain, instead)


def _followed(ways: Ways, call: str) -> str:
    """The function among those that a text calls whose lines are recorded."""
    scopes = {step for name in ways.record.names for step in strip(name).partition(":")[0].split("/")[1:]}
    return next((name for name in re.findall(r"(\w+)\(", call)[::-1] if name in scopes), "")


def _kind(cut: Cut, source: Entry, target: Entry, framework: str) -> str:
    use = cut.mention.use
    if cut.is_silent:
        return "limited" if cut.is_limited else "silent"
    if use.kind == DIFFERENTIATED:
        return "derivative"
    if use.kind == "checkpoint":
        return "checkpoint" if source.status is GradStatus.FROZEN else "inside"
    if is_in_vain(target):
        return "checkpoint"
    if target.status is GradStatus.NO_GRAD and use.kind != "number" and INHERITED not in target.reason:
        return "no_grad"
    if use.kind:
        return use.kind
    if target.status is GradStatus.NOT_FLOAT:
        return "index" if target.op in POSITIONS else "not_float"
    if target.status is GradStatus.NOT_TENSOR:
        return "number"
    if use.flat and framework != "torch":  # which has an edge there
        return "zero_derivative"
    return "inside" if use.call and not use.is_conditional else "unknown"


def mode_of(reason: str) -> str:
    """The mode that a backend's reason speaks of."""
    return next((words for mode, words in MODES.items() if mode in reason), "while gradients were switched off")


def is_of_whole_numbers(entry: Entry) -> bool:
    """Has its dtype no derivatives, also where nothing else is known of it?"""
    is_floating = entry.dtype is None or entry.dtype.startswith(("float", "bfloat", "complex"))
    return entry.status is GradStatus.NOT_FLOAT or (entry.status is GradStatus.OPAQUE and not is_floating)


def _state(entry: Entry) -> str:
    if is_of_whole_numbers(entry):
        return f"of dtype {entry.dtype}"
    if entry.status is GradStatus.NOT_TENSOR:
        return entry.reason.removeprefix("it is ")
    known = {
        GradStatus.OK: "differentiated", GradStatus.NOT_CONNECTED: "differentiated",
        GradStatus.BACKWARD_NOT_RUN: "differentiated", GradStatus.OPAQUE: "differentiated",
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
        is_same = _scopes(ways, at) == _scopes(ways, target) or not unread(text, frozenset(read))
        if is_same and {spelled: name for spelled, name in _reads(other) if spelled in read} == read:
            again = {"value": repr(entry.name), "text": f"`{text}`", "again": repr(other.name)}
            chain = (*(name for name in dict.fromkeys(read.values())), entry.name)
            facts = [made_at(entry), "each time that it runs, such an expression gives a tensor of its own"]
            line = line_of(other.source, text)
            return _found(ways, "made_again", entry.name, line, again, chain=chain, facts=facts)
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
    return _found(ways, "other_call", entry.name, entry.source, fields, facts=_ends(ways, at, ways.after(at)))


def _unused(ways: Ways, at: int, after: dict[int, int | None]) -> Finding:
    entry = ways.entries[at]
    fields = {"value": repr(entry.name), "outputs": _outputs(ways)}
    end = _last(ways, after)
    if end != at and is_returned(ways, end) and not any(entry.source for entry in ways.entries):
        facts = [*_ends(ways, at, after), GOES_ON]
        chain = ways.chain(after, end)
        return replace(_found(ways, "not_seen", entry.name, None, fields, chain=chain, facts=facts), kind="unknown")
    chain = ways.chain(after, end) if end != at else ()
    line, facts = ways.entries[end].source, _ends(ways, at, after)
    if _is_partial(ways, end):
        found = _found(ways, "not_selected", entry.name, line, fields, chain=chain, facts=facts)
        return replace(found, kind="unknown")
    return _found(ways, "unused", entry.name, line, fields, chain=chain, facts=facts)


def _ends(ways: Ways, at: int, after: dict[int, int | None]) -> list[str]:
    """Where what is computed from a value ends."""
    ends = [each for each in after if each != at and not ways.consumers.get(each)]
    if not ends:
        nothing = [f"no recorded value is computed from {ways.entries[at].name!r}"]
        return nothing if ways.entries[at].source is not None else [*nothing, GOES_ON]
    named = [made_at(ways.entries[each]) for each in ends[:LISTED]]
    more = [f"and {len(ends) - LISTED} more"] if len(ends) > LISTED else []
    return [f"what is computed from it ends there: {one}" for one in named] + more


def _last(ways: Ways, after: dict[int, int | None]) -> int:
    return next((each for each in after if not ways.consumers.get(each)), next(iter(after)))


def made_at(entry: Entry) -> str:
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
                      "mode": mode_of(entry.reason), "dtype": entry.dtype}  # fmt: skip
            facts = [f"`{text}` is not recorded: of what it had, this line lets nothing through"]
            if of is not None:
                facts = [f"`{text}` stands in that line, and is this value unless another has the same name there"]
            chain = () if to is None or to == each else ways.chain(ways.after(each), to)
            said = "copied_unseen" if use.kind == "copied" and text.isidentifier() else use.kind
            one = _found(ways, said, entry.name, line, fields, facts=facts, chain=chain)
            found.append(replace(one, kind=use.kind))
    return found


def _no_history_seen(ways: Ways, at: int, before: set[int]) -> Finding:
    entry = ways.entries[at]
    fields = {"value": repr(entry.name), "plain": strip(entry.name).lstrip(":")}
    if entry.status is GradStatus.NO_GRAD:
        return _found(ways, "no_grad", entry.name, entry.source, {
            **fields, "target": repr(entry.name), "value": "values that are differentiated",
            "mode": mode_of(entry.reason)})  # fmt: skip
    if is_in_vain(entry):
        return in_vain(ways, entry)
    if entry.status is GradStatus.DETACHED and _uses_no_number(entry):
        mentioned = ", ".join(repr(read.name) for read in entry.reads)
        facts = [f"of {mentioned} the shape and the like are used, and no number"]
        return _found(ways, "frozen_leaf", entry.name, entry.source, fields, facts=facts)
    if entry.status is GradStatus.DETACHED:
        return _found(ways, "unknown", entry.name, entry.source, {**fields, "target": repr(entry.name),
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
        found = _found(ways, "frozen_unseen", entry.name, entry.source, fields, facts=facts, chain=chain)
        return replace(found, kind="frozen")
    kind = "frozen" if ways.sources(at) or is_returned(ways, at) else "frozen_leaf"
    return _found(ways, kind, entry.name, entry.source, fields, facts=facts or [entry.reason], chain=chain)


def _uses_no_number(entry: Entry) -> bool:
    """Does the line of an entry ask of all that it mentions only for the shape and the like?"""
    text = entry.source.expression if entry.source is not None else ""
    known = [use for read in entry.reads for use in uses(text, read.spelled) or (Use(),)]
    return bool(known) and all(use.kind == NO_NUMBERS for use in known)


def is_in_vain(entry: Entry) -> bool:
    """Was it computed in a reentrant checkpoint that was given nothing that requires a gradient?"""
    return entry.status is GradStatus.DETACHED and IN_VAIN in entry.reason


def in_vain(ways: Ways, entry: Entry) -> Finding:
    text = entry.cause.text if entry.cause is not None else "the checkpoint"
    return _found(ways, "checkpoint", entry.name, entry.cause, {"text": f"`{text}`"}, facts=[entry.reason])


def is_returned(ways: Ways, at: int) -> bool:
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
            found.append(_found(ways, "made_leaf", entry.name, flag.source, {"value": repr(entry.name)}, facts=facts))
    return found


# the rest: what the status says already


def by_status(ways: Ways, entry: Entry) -> Finding:
    kind = str(entry.status)
    instead = "record it where it can be seen: see the reason"
    line = entry.cause or _rewriting(ways, entry) if entry.status is GradStatus.OPAQUE else entry.cause
    if entry.status is GradStatus.OPAQUE and line is not None:
        kind = "overwritten"
    if is_of_whole_numbers(entry):
        kind = "not_float"
    fields = {"value": repr(entry.name), "target": repr(entry.name), "reason": entry.reason, "dtype": entry.dtype,
              "instead": instead}  # fmt: skip
    facts = [entry.reason] if kind == "overwritten" else []
    return _found(ways, kind, entry.name, line or entry.source, fields, facts=facts)


def _rewriting(ways: Ways, entry: Entry) -> Source | None:
    """The line that made the next version of a value, where both have one gradient together."""
    alike = (other for other in ways.entries if other.reason == entry.reason)
    return next((other.source for other in alike if any(way.name == entry.name for way in other.passages)), None)


def _found(
    ways: Ways, kind: str, name: str, source: Source | None, fields: dict[str, Any], *, facts: Sequence[str] = (),
    chain: tuple[str, ...] = (),
) -> Finding:  # fmt: skip
    cause, instead = CAUSES[kind], CAUSES[kind].instead(ways.record.framework, **fields)
    return Finding(kind, name, cause.headline(**fields), source, tuple(facts), chain, instead)


def with_fact(finding: Finding, fact: str) -> Finding:
    return Finding(finding.kind, finding.name, finding.headline, finding.source, (*finding.facts, fact), finding.chain,
                   finding.remedy)  # fmt: skip
