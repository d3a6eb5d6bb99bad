"""Gradients that are there, and useless: what was noted of them in the iterations of a training, as findings."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from backprobe.backends.tensors import Arrays
from backprobe.backends.useless import CANCELS, FLAT, TIMES_ZERO, UNNORMALISED, USELESS, is_lasting, line_of
from backprobe.backends.zero_gradients import CODE as ALL_ZERO
from backprobe.cuts.missing_edges import Dataflow
from backprobe.explain.text import finding, instead_of_flat, say
from backprobe.findings.phrasing import listed, location, uncommented
from backprobe.findings.report import Finding, Report
from backprobe.record.reasons import Note
from backprobe.record.source import Source

OF_PARAMETERS = (FLAT, TIMES_ZERO, CANCELS)


def with_useless(flow: Dataflow, report: Report, arrays: Arrays) -> Report:
    """The report, with what is useless about gradients that are there before what lacks them.

    Where every gradient is 0, that is one finding, which has the causes beneath it.
    """
    every = [note for code in USELESS for note in flow.record.notes if note.code == code]
    once = [note for note in every if not is_lasting(note)]
    report = replace(report, notes=(*report.notes, *map(_once, once)))
    noted = [note for note in every if note not in once]
    if not noted:
        return report
    root = next(iter(report.of_kind(ALL_ZERO)), None)
    found = [_finding(flow, note, arrays) for note in noted]
    if root is not None:
        beneath = [replace(one, cause=root.headline) for one in found]
        others = [one for one in report if one is not root]
        return replace(report, findings=(root, *beneath, *others))
    parts = [report.heading, *({_consequence(note): None for note in noted})]
    return replace(report, heading="; ".join(parts), findings=(*found, *report))


def _once(note: Note) -> str:
    # The next iteration may bring another: it is a remark.
    at = line_of(note)
    place = "" if at is None else f" ({location(at)})"
    return say("zero_once", gradients=_gradients(note), operation=note.fields["operation"], place=place)


def _consequence(note: Note) -> str:
    if note.code not in OF_PARAMETERS:
        return say(f"useless.{note.code}", **note.fields)
    return say("useless", gradients=_gradients(note))


def _gradients(note: Note) -> str:
    more = int(note.fields["count"]) - 1
    return say("gradients_of" if more else "gradient_of", first=note.fields["first"], more=more)


def _finding(flow: Dataflow, note: Note, arrays: Arrays) -> Finding:
    fields, framework, at = dict(note.fields), flow.record.framework, line_of(note)
    code, facts, name = note.code, list[str](), ""
    fields["text"] = f"`{uncommented(at)}`" if at is not None else "the operation"
    if code in OF_PARAMETERS:
        name = fields["first"]
        fields["gradients"] = _gradients(note)
        if fields["count"] != "1":
            facts.append(say("zero_for", names=fields["names"]))
    if code == FLAT:
        fields["instead"] = instead_of_flat(fields["operation"], framework) or say("not_flat")
    if code == TIMES_ZERO:
        factors = listed([*dict.fromkeys(_zero_operands(flow, at, arrays))])
        code = f"{code}.named" if factors else code
        fields["factors"] = factors
    if code == UNNORMALISED and "share" in fields:
        code = f"{code}.clipped"
    fields.pop("at", None)
    return finding(code, name, at, framework, facts=facts, chain=(), **fields)


def _zero_operands(flow: Dataflow, at: Source | None, arrays: Arrays) -> Iterator[str]:
    # What a line reads that is 0 everywhere, and not differentiated.
    for target, entry in enumerate(flow.entries):
        place = entry.source
        if at is None or place is None or (place.file, place.line) != (at.file, at.line):
            continue
        for mention in flow.mentions[target]:
            source = flow.entries[mention.source]
            if not flow.edges[target] or mention.source not in flow.edges[target]:
                known = arrays.summary(source.held) if arrays.is_tensor(source.held) else None
                if known is not None and known.size and not known.nonfinite and known.largest == 0:
                    yield repr(source.name)
