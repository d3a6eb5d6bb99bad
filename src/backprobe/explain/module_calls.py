"""Findings at lines that call a module or mention a parameter, by how these lines use it."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from backprobe.cuts.cutting_operations import Use, use_of
from backprobe.cuts.lines import line_of
from backprobe.cuts.mentions import DIFFERENTIATED, NO_NUMBERS
from backprobe.cuts.missing_edges import Dataflow
from backprobe.cuts.parsed import parsed
from backprobe.explain.cut_findings import converted, cut_finding, draws_whole_numbers, gives_list
from backprobe.explain.text import finding, say
from backprobe.findings.known import Known
from backprobe.findings.phrasing import listed, location
from backprobe.findings.report import Finding
from backprobe.record.source import Source, expression_of, place_of
from backprobe.record.training import APPLIED, CHECKPOINT, ModuleCall


def of_call(flow: Dataflow, name: str, call: ModuleCall) -> Finding:
    """Make the finding about a line that calls a module, by the call's mode, or by how the line uses the result."""
    if call.mode == CHECKPOINT:
        return said(flow, "checkpoint", name, call)
    if call.mode == APPLIED:
        return said(flow, "nothing_given.module", name, call)
    if call.mode:
        facts = [say("switched_at", at=location(call.switched))] if call.switched is not None else []
        is_call = call.text.endswith(")")  # otherwise the text is a name that holds the result
        return said(flow, "no_grad.call" if is_call else "no_grad", name, call, facts, mode=f"under {call.mode}")
    use = None if call.is_unread else use_of(call.source.statement, call.text)
    if use is None:
        return said(flow, "dropped", name, call, known=Known.NOWHERE)
    if use.kind in ("", NO_NUMBERS, DIFFERENTIATED):
        return _cut_of_result(flow, call) or said(flow, "unknown.call", name, call, known=Known.NOT_HOW | Known.UNSURE)
    if use.kind == "sample" and draws_whole_numbers(use.text):
        return said(flow, "sample.discrete", name, call, use=use)
    if use.kind != "number":
        return said(flow, use.kind, name, call, use=use)
    inside = converted(use.text)
    code = "number.list" if gives_list(use.text) else "number.of" if inside not in ("", call.text) else "number"
    return said(flow, code, name, call, use=use, converted=f"`{inside}`")


def _cut_of_result(flow: Dataflow, call: ModuleCall) -> Finding | None:
    # The finding at a later line that cuts off the named result itself, for example by ``detach_()``.
    for at, entry in enumerate(flow.entries):
        if place_of(entry.source) == place_of(call.source):
            cuts = flow.cuts(at) if expression_of(entry.source) == call.text else []
            if cuts:
                return cut_finding(flow, cuts[0])
    return None


def said(
    flow: Dataflow,
    code: str,
    name: str,
    call: ModuleCall | None,
    facts: Sequence[str] = (),
    use: Use | None = None,
    known: Known = Known.NOTHING,
    **fields: str,
) -> Finding:
    """Make the finding of a cause at the line of a call, if a call is known."""
    text = "" if call is None else call.text
    cutting = text if use is None else use.text
    line: Source | None = None if call is None else line_of(call.source, cutting)
    outputs = listed([repr(flow.entries[at].name) for at in flow.record.outputs]) or "the loss"
    words: dict[str, str] = {
        "name": repr(name),
        "value": f"`{text}`",
        "plain": text,
        "text": f"`{cutting}`",
        "call": f"`{text}`",
        "target": "the result" if call is None else _bound(call),
        "outputs": outputs,
        **fields,
    }
    return finding(code, name, line, flow.record.framework, facts=facts, chain=(), known=known, **words)


def _bound(call: ModuleCall) -> str:
    # The name that the statement of a call binds, if it is a single one and not the text of the call; else the words
    # "the result".
    match parsed(call.source.statement):
        case ast.Module(body=[ast.Assign(targets=[ast.Name(id=name)])]) if name != call.text:
            return repr(name)
    return "the result"
