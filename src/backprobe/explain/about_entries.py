"""Makes findings about entries, fills the fields of their sentences, and merges findings on the same line."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from backprobe.cuts.missing_edges import Dataflow
from backprobe.explain.text import finding, say
from backprobe.findings.known import Known
from backprobe.findings.phrasing import listed, uncommented
from backprobe.findings.report import Finding, grouped
from backprobe.record.entries import Entry, GradStatus
from backprobe.record.names import strip
from backprobe.record.source import Source, place_of

COUNT = re.compile(r"#\d+")
BY_REASON = {
    "reentrant_checkpoint": "checkpoint",
    "nothing_given": "nothing_given",
    "block_not_differentiated": "backward_not_run.block",
    "block_raised": "backward_not_run.raised",
    "named_late": "backward_not_run.late",
}
"""For some reasons of a missing gradient, the code of its cause. ``by_status`` has the rules for other reasons."""


def about(
    flow: Dataflow,
    code: str,
    entry: Entry,
    source: Source | None,
    /,
    *,
    facts: Sequence[str] = (),
    chain: tuple[str, ...] = (),
    known: Known = Known.NOTHING,
    **fields: str,
) -> Finding:
    """Make a finding with the cause ``code`` about an entry. Fields that are not given are filled from the entry."""
    words = {
        "value": repr(entry.name),
        "target": repr(entry.name),
        "plain": as_code(entry.name),
        "reason": entry.reason,
        "dtype": str(entry.dtype),
        "mode": mode_of(entry),
        "outputs": listed([repr(flow.entries[at].name) for at in flow.record.outputs]) or "an output",
        "text": "the checkpoint" if entry.cause is None else f"`{uncommented(entry.cause)}`",
    }
    every = {**words, **fields}
    return finding(code, entry.name, source, flow.record.framework, facts=facts, chain=chain, known=known, **every)


def by_status(flow: Dataflow, entry: Entry) -> Finding:
    """Make the finding for an entry whose status already explains its missing gradient."""
    line = entry.cause or _rewriting(flow, entry) if entry.status is GradStatus.OPAQUE else entry.cause
    is_apart = entry.is_because(
        "partly_updated", "variable_read_unseen", "written_past_unsaved", "written_within_function"
    )  # entries with these reasons are opaque, but not overwritten
    is_overwritten = entry.status is GradStatus.OPAQUE and line is not None and not is_apart
    code = "not_float" if is_of_whole_numbers(entry) else "overwritten" if is_overwritten else str(entry.status)
    code = code if entry.why is None else BY_REASON.get(entry.why.code, code)
    code = "backward_not_run.model" if entry.is_because("backward_not_called") and entry.source is None else code
    facts = [entry.reason] if code in ("overwritten", "checkpoint") else []
    instead = "" if entry.why is None else entry.why.fields.get("next", "")
    # for these causes, the finding names the line of the program that is at fault
    is_at_fault = is_overwritten or entry.is_because("reentrant_checkpoint", "nothing_given")
    known = Known.NOTHING if is_at_fault else Known.STATUS
    return about(flow, code, entry, line or entry.source, facts=facts, instead=instead, known=known)


def _rewriting(flow: Dataflow, entry: Entry) -> Source | None:
    # The line that wrote the next version of this value: the line of an entry that this value went into without being
    # mentioned, and whose gradient is missing for the same reason. None if there is no such entry.
    alike = (other for other in flow.entries if other.why == entry.why)
    return next((other.source for other in alike if any(way.name == entry.name for way in other.indirect)), None)


def with_fact(found: Finding, fact: str) -> Finding:
    """The finding with one more fact."""
    return replace(found, facts=(*found.facts, fact))


def merged(findings: Sequence[Finding]) -> list[Finding]:
    """Merge findings of one kind at one line, as those of each iteration of a loop, if they are about the same name.

    If a finding has a line and no field with its name, all its fields must be the same instead. Counts in names, such
    as ``#1``, do not matter.
    """

    def said(found: Finding) -> object:
        line = found.source
        fields = tuple(COUNT.sub("", text) for text in found.fields.values())
        is_of_name = line is None or repr(found.name) in found.fields.values()
        return found.kind, place_of(line), strip(found.name) if is_of_name else fields

    return [as_one(group) for group in grouped(findings, said)]


def as_one(findings: Sequence[Finding]) -> Finding:
    """The first of several findings, with a fact that lists the names of the others if they differ from its own."""
    first, *others = findings
    names = list(dict.fromkeys(other.name for other in others if other.name != first.name))
    return with_fact(first, say("same_of", names=listed(names))) if names else first


def is_said(line: Source | None, findings: Sequence[Finding]) -> bool:
    """Does one of these findings point to the line?"""
    return line is not None and place_of(line) in {place_of(one.source) for one in findings}


def mode_of(entry: Entry) -> str:
    """The words for the mode that disabled gradients for an entry, if the backend reported one; else general words."""
    mode = "" if entry.why is None else entry.why.fields.get("mode", "")
    if mode == "torch.no_grad()":
        return f"under {mode} or set_grad_enabled(False)"  # PyTorch does not distinguish the two
    return f"under {mode}" if mode else "while gradients were switched off"


def line_in(fields: Mapping[str, str]) -> Source | None:
    """The line that the fields of a reason refer to, if any."""
    file, _, line = fields.get("at", "").rpartition(":")
    return Source(file, int(line), fields.get("text", "")) if file else None


def is_none(entry: Entry) -> bool:
    """Is the entry's name bound to None?"""
    codes = ("not_tensor", "no_attention_weights")
    return entry.is_because(*codes) and entry.why is not None and entry.why.fields.get("kind") == "None"


def is_of_whole_numbers(entry: Entry) -> bool:
    """Does the entry have the status NOT_FLOAT, or OPAQUE and a known dtype without derivatives, such as int64?"""
    is_floating = entry.dtype is None or entry.dtype.startswith(("float", "bfloat", "complex"))
    return entry.status is GradStatus.NOT_FLOAT or (entry.status is GradStatus.OPAQUE and not is_floating)


def own_name(name: str) -> str:
    """Return the local part of a name, such as ``pair.0`` for ``/step#1:pair#0.0``: no scope and no counts."""
    return strip(name).rpartition(":")[2]


def as_code(name: str) -> str:
    """Return a name as the program may spell it in its code, with items as ``[1]`` and without scopes of a framework.

    >>> as_code("/step#1:pair#0.0"), as_code("layers.1.weight"), as_code("dense/kernel:0")
    ('pair[0]', 'layers[1].weight', 'kernel')
    """
    own = re.sub(r":\d+$", "", strip(name)).rpartition(":")[2].rpartition("/")[2]
    return re.sub(r"\.(\d+)", r"[\1]", own)


def names_of(flow: Dataflow, at: int) -> list[str]:
    """Return all full names of a value, without counts."""
    return [strip(full) for full, position in flow.record.names.items() if position == at]


def scopes_of(flow: Dataflow, at: int) -> set[str]:
    """The scopes of a value's names, without counts; for a name without a local, such as a parameter's, all of it."""
    return {name.partition(":")[0] for name in names_of(flow, at)}


def is_returned(flow: Dataflow, at: int) -> bool:
    """Is the entry a return value, as of a module, that no line of the program binds?"""
    return flow.entries[at].source is None and any(name.endswith(":return") for name in names_of(flow, at))
