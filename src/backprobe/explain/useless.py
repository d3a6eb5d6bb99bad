"""Gradients that exist but are useless: turns the notes on them into findings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from backprobe.backends.tensors import Arrays
from backprobe.backends.useless import (
    CANCELS,
    FLAT,
    HOOKED,
    NOT_SENT,
    STILL,
    TIMES_ZERO,
    UNFED,
    UNNORMALISED,
    USELESS,
    is_lasting,
    line_of,
)
from backprobe.backends.zero_gradients import CODE as ALL_ZERO
from backprobe.cuts.missing_edges import Dataflow
from backprobe.explain.all_zero import gradients_of, is_zero
from backprobe.explain.operands import look_at
from backprobe.explain.text import finding, instead_of_flat, say
from backprobe.findings.known import Known
from backprobe.findings.phrasing import listed, location, plural, uncommented
from backprobe.findings.report import Finding, Report
from backprobe.record.brief import place
from backprobe.record.entries import Entry, GradStatus, Record
from backprobe.record.reasons import Note
from backprobe.record.source import Source, place_of

NOT_AGAIN = ("side_effect", "written_before_again")
FEW = 2  # number of notes that get a sentence each
OF_PARAMETERS = (FLAT, TIMES_ZERO, NOT_SENT, HOOKED, CANCELS)


def all_zero_in(record: Record, arrays: Arrays) -> list[str]:
    """The names of all inputs with a gradient if all of these gradients are exactly 0; else nothing."""
    found = _inputs_with_gradients(record)
    return [one.name for one in found] if all(is_zero(arrays, one.held_grad) for one in found) else []


def _inputs_with_gradients(record: Record) -> list[Entry]:
    given = [one for at, one in enumerate(record.entries) if not one.inputs and at not in record.outputs]
    return [one for one in given if one.status is GradStatus.OK and one.held_grad is not None]


def with_useless(flow: Dataflow, report: Report, arrays: Arrays) -> Report:
    """Add the findings about useless gradients to a report: those on the loss or the steps first, and the others before
    findings on fewer parameters.

    If every gradient is 0, there is a single finding about this, with its causes below it.
    """
    every, once = _noted(flow.record)
    again = [str(note) for note in flow.record.notes if note.code in NOT_AGAIN]
    if not report.of_kind(ALL_ZERO):
        again = [*_all_once(once), *again]
    report = replace(report, notes=(*report.notes, *again))
    root = next(iter(report.of_kind(ALL_ZERO)), None)
    noted = [note for note in every if note not in once or root is not None]
    # if gradients are missing or 0, this also explains why an optimizer finds none
    noted = [note for note in noted if note.code != UNFED or report.ok]
    if not noted:
        return _of_zero(flow.record, report, arrays)
    found = [_finding(flow, note, arrays) for note in noted]
    if root is not None:
        beneath = [_beneath(root, one) for one in found]
        others = [one for one in report if one is not root]
        # the causes below this finding have remedies of their own
        return replace(report, findings=(replace(root, remedy=""), *beneath, *others))
    heading = "; ".join([report.heading, *_consequences(noted)])
    return replace(report, heading=heading, findings=_most_first(noted, found, report))


def _noted(record: Record) -> tuple[list[Note], list[Note]]:
    # Return the notes on useless gradients, in the order of a report, and those that may not recur in the next
    # iteration.
    every = [note for code in USELESS for note in record.notes if note.code == code]
    return every, [note for note in every if not is_lasting(note)]


def _most_first(noted: Sequence[Note], found: Sequence[Finding], report: Report) -> tuple[Finding, ...]:
    # Order the findings: first those on the loss or the steps, then those on parameters, the largest number first.
    counts = [int(note.fields.get("count", 0)) for note in noted]
    ordered = [one for one, count in zip(found, counts, strict=True) if not count]
    of_some = sorted(
        ((count, one) for count, one in zip(counts, found, strict=True) if count), key=lambda each: -each[0]
    )
    for one in report:
        while of_some and of_some[0][0] >= len(one.lost):
            ordered.append(of_some.pop(0)[1])
        ordered.append(one)
    return (*ordered, *(one for _, one in of_some))


def _beneath(root: Finding, one: Finding) -> Finding:
    # Place a cause below the finding on all gradients, without facts that this finding already states.
    return replace(one, cause=root.headline, facts=tuple([fact for fact in one.facts if fact not in root.facts]))


def with_zero_everywhere(report: Report, record: Record, names: Sequence[str]) -> Report:
    """Return the report with a heading on gradients that were 0 at every point tried.

    Notes on these gradients at this single point are removed.
    """
    if not names:
        return report
    _, once = _noted(record)
    left = [note for note in once if not {*names} >= {*note.fields.get("names", "").split(", ")}]
    said = {*_all_once(once)}
    heading = f"{report.heading}; {say('zero_everywhere', gradients=gradients_of(names))}"
    notes = [note for note in report.notes if note not in said]
    return replace(report, heading=heading, notes=(*notes, *_all_once(left)))


def with_zeros_kept(report: Report, record: Record, arrays: Arrays) -> Report:
    """The report on a recording that cannot run again, with a note on single gradients that are 0 in it.

    In a training, the note is only added if nothing was found: a finding may explain these gradients.
    """
    there = _inputs_with_gradients(record)
    zero = [one.name for one in there if is_zero(arrays, one.held_grad)]
    if not zero or len(zero) == len(there) or (record.training is not None and not report.ok):
        return report
    code = "zero_kept" if record.training is None else "zero_trained"
    return replace(report, notes=(*report.notes, say(code, gradients=gradients_of(zero), first=repr(zero[0]))))


def _of_zero(record: Record, report: Report, arrays: Arrays) -> Report:
    # Mention zero gradients in the heading only, because a function may have zero slope at a single point.
    zero = all_zero_in(record, arrays) if report.ok and record.training is None else []
    if not zero:
        return report
    gradients = plural(len(zero), "gradient")
    return replace(report, heading=say("zero_here" if len(zero) > 1 else "zero_here.one", gradients=gradients))


def _all_once(notes: Sequence[Note]) -> list[str]:
    # Return one sentence for each note; or a single one for many notes, which would fill a screen.
    if len(notes) <= FEW:
        return [*map(_once, notes)]
    lines = [line_of(note) for note in notes]
    places = [
        note.fields["operation"] + (f" ({place(at.file, at.line)})" if at is not None else "")
        for note, at in zip(notes, lines, strict=True)
    ]
    count = sum(int(note.fields["count"]) for note in notes)
    gradients = gradients_of([notes[0].fields["first"]], count)
    return [say("zero_once.several", gradients=gradients, when=_when(notes[0]), places=", ".join(places))]


def _once(note: Note) -> str:
    # Return a remark, not a finding, because the next iteration may differ.
    at = line_of(note)
    where = "" if at is None else f" ({location(at)})"
    operation, when = note.fields["operation"], _when(note)
    return say("zero_once", gradients=_gradients(note), operation=operation, place=where, when=when)


def _when(note: Note) -> str:
    return say("when" if is_lasting(note) else f"when.{note.fields['iterations']}")


def _consequences(notes: Sequence[Note]) -> list[str]:
    # Return words for the heading, which without them would say that all gradients are there.
    of_some = [note for note in notes if note.code in OF_PARAMETERS]
    others = {say(f"useless.{_variant(note)}", **note.fields): None for note in notes if note not in of_some}
    count = sum(int(note.fields["count"]) for note in of_some)
    return [*others, *(say("useless", gradients=gradients_of([note.fields["first"]], count)) for note in of_some[:1])]


def _variant(note: Note) -> str:
    # The code of the sentence. A step without an optimizer has a separate code, because it is called an update.
    if "constant" in note.fields:
        return f"{note.code}.constant"
    if "cast" in note.fields:
        return f"{note.code}.cast"
    return f"{note.code}.added" if note.code == STILL and "optimizer" not in note.fields else note.code


def _gradients(note: Note) -> str:
    return gradients_of([note.fields["first"]], int(note.fields["count"]))


def _finding(flow: Dataflow, note: Note, arrays: Arrays) -> Finding:
    fields, framework, at = dict(note.fields), flow.record.framework, line_of(note)
    code, facts, name = _variant(note), list[str](), fields.get("first", "")
    fields["text"] = f"`{uncommented(at)}`" if at is not None else "the operation"
    if note.code in OF_PARAMETERS:
        left = say("cancelled.zero" if "zero" in fields else "cancelled")
        fields |= {"gradients": _gradients(note), "when": _when(note), "left": left}
        if fields["count"] != "1":
            facts.append(say("zero_for", names=fields["names"]))
    facts += [say("in_part" if fields["class"] else "in_loss", **fields)] if "part" in fields else []
    fields["look"] = look_at(flow, at)
    if note.code == FLAT:
        fields["instead"] = instead_of_flat(fields["operation"], framework) or say("not_flat")
    if code == TIMES_ZERO:
        factors = listed([*dict.fromkeys(_zero_operands(flow, at, arrays))])
        code = f"{code}.named" if factors else code
        fields["factors"] = factors
    if code == UNNORMALISED and "share" in fields:
        code = f"{code}.clipped"
    fields.pop("at", None)
    return finding(code, name, at, framework, facts=facts, chain=(), known=Known.GRADIENT_THERE, **fields)


def _zero_operands(flow: Dataflow, at: Source | None, arrays: Arrays) -> Iterator[str]:
    # Yield the names that a line reads and that are 0 everywhere and not differentiated.
    for target, entry in enumerate(flow.entries):
        if at is None or place_of(entry.source) != place_of(at):
            continue
        for mention in flow.mentions[target]:
            source = flow.entries[mention.source]
            if not flow.edges[target] or mention.source not in flow.edges[target]:
                known = arrays.summary(source.held) if arrays.is_tensor(source.held) else None
                if known is not None and known.size and not known.nonfinite and known.largest == 0:
                    yield repr(source.name)
