"""One cut, in words: what the line does, what it does it to, and what is usually written instead."""

from __future__ import annotations

import re

from backprobe.cuts.cuts import DIFFERENTIATED, Cut, Ways
from backprobe.cuts.usage import POSITIONS
from backprobe.explain.catalogue import CAUSES, instead_of_flat
from backprobe.explain.sentences import LISTED, finding_of, is_of_whole_numbers, made_at, mode_of
from backprobe.findings.report import Finding
from backprobe.record.entries import Entry, GradStatus
from backprobe.record.names import strip


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
        "dtype": target.dtype, "mode": mode_of(target.why), "function": call.partition("(")[0] or "f",
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


def through(ways: Ways, after: dict[int, int | None], cut: Cut) -> tuple[str, ...]:
    return (*ways.chain(after, cut.mention.source), ways.entries[cut.target].name)


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
    if target.status is GradStatus.NO_GRAD and use.kind != "number" and not target.is_because("inherited"):
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


def _state(entry: Entry) -> str:
    if is_of_whole_numbers(entry):
        return f"of dtype {entry.dtype}"
    if entry.status is GradStatus.NOT_TENSOR:
        return entry.why.fields["kind"] if entry.why is not None else ""
    known = {
        GradStatus.OK: "differentiated", GradStatus.NOT_CONNECTED: "differentiated",
        GradStatus.BACKWARD_NOT_RUN: "differentiated", GradStatus.OPAQUE: "differentiated",
    }  # fmt: skip
    return known.get(entry.status, str(entry.status))


def _onward(ways: Ways, at: int) -> str:
    outputs = [ways.entries[each].name for each in ways.record.outputs]
    onward = at in ways.to_outputs and at not in ways.record.outputs
    return ", ".join(map(repr, outputs[:LISTED])) if onward else ""


def is_in_vain(entry: Entry) -> bool:
    """Was it computed in a reentrant checkpoint that was given nothing that requires a gradient?"""
    return entry.is_because("reentrant_checkpoint")


def in_vain(ways: Ways, entry: Entry) -> Finding:
    text = entry.cause.text if entry.cause is not None else "the checkpoint"
    return finding_of(ways, "checkpoint", entry.name, entry.cause, {"text": f"`{text}`"}, facts=[entry.reason])
