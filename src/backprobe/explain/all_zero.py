"""Findings about gradients that are exactly 0: all of a training, or single ones that no path lets through."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from backprobe.backends.tensors import Arrays
from backprobe.backends.zero_gradients import BEHIND, CODE
from backprobe.cuts.missing_edges import Dataflow
from backprobe.explain.about_entries import line_in
from backprobe.explain.operands import look_at
from backprobe.explain.text import finding, say
from backprobe.findings.known import Known
from backprobe.findings.report import Finding, Report
from backprobe.record.entries import GradStatus
from backprobe.record.reasons import Note

KNOWN = Known.GRADIENT_THERE | Known.MOMENTARY


def with_zeros(flow: Dataflow, report: Report, arrays: Arrays) -> Report:
    """Put findings about gradients that are exactly 0 first in the report, if a note of the record names such ones."""
    behind = tuple(
        finding(
            BEHIND,
            one.fields["name"],
            line_in(one.fields),
            flow.record.framework,
            value=repr(one.fields["name"]),
            operations=one.fields["operations"],
            known=Known.GRADIENT_THERE,
        )
        for one in flow.record.notes
        if one.code == BEHIND
    )
    if behind:  # only some gradients are 0, so the heading names them
        zero = say("zero_everywhere.exactly", gradients=gradients_of([one.name for one in behind]))
        return Report(f"{report.heading}; {zero}", (*behind, *report.findings), report.notes)
    note = next((note for note in flow.record.notes if note.code == CODE), None)
    if note is None:
        return report
    found, training = _finding(flow, note, arrays), flow.record.training
    parts = [found.headline]
    if training is not None and (training.untrained or training.cleared):
        parts = [report.heading, found.headline]
    elif training is not None and training.frozen:
        parts = [found.headline, say("frozen_parameters", count=training.frozen)]
    return replace(report, heading="; ".join(parts), findings=(found, *report))


def _finding(flow: Dataflow, note: Note, arrays: Arrays) -> Finding:
    # Make the finding that all gradients are 0. It is placed at the last value that has a nonzero gradient although the
    # gradient of one of its inputs is 0; without such a value, at the last output. If that has no line, the finding is
    # placed at the line of the note.
    record = flow.record
    facts = [say("zero_for", names=note.fields["names"])]
    begin = next(_begins(flow, arrays), None)
    if begin is not None:
        facts.append(
            say("became_zero", target=repr(flow.entries[begin[0]].name), value=repr(flow.entries[begin[1]].name))
        )
    at = next((flow.entries[each] for each in (*(begin or ())[:1], *reversed(record.outputs))), None)
    source = None if at is None else at.source
    return finding(
        CODE,
        "" if at is None or source is None else at.name,
        source or line_in(note.fields),
        record.framework,
        facts=facts,
        gradients=note.fields["gradients"],
        look=look_at(flow, source),
        known=KNOWN,
    )


def _begins(flow: Dataflow, arrays: Arrays) -> Iterator[tuple[int, int]]:
    # Yield pairs of a value with a nonzero gradient and one of its inputs with a zero gradient, the last values first.
    entries = flow.entries
    zero = [entry.status is GradStatus.OK and is_zero(arrays, entry.held_grad) for entry in entries]
    for at in reversed(range(len(entries))):
        if entries[at].status is GradStatus.OK and not zero[at]:
            yield from ((at, source) for source in sorted(flow.edges[at]) if zero[source])


def gradients_of(names: Sequence[str], count: int = 0) -> str:
    """Return the words for the gradients of some values; ``count`` may exceed the number of given names.

    >>> gradients_of(["w"]), gradients_of(["w", "b"]), gradients_of(["w"], 3)
    ("the gradient of 'w'", "the gradient of 'w' and 1 more", "the gradient of 'w' and 2 more")
    """
    more = (count or len(names)) - 1
    return say("gradients_of" if more else "gradient_of", first=names[0], more=more)


def is_zero(arrays: Arrays, gradient: object) -> bool:
    """Is the gradient known to be 0 everywhere? The answer is no for an empty one."""
    known = arrays.summary(gradient) if arrays.is_tensor(gradient) else None
    return known is not None and not known.nonfinite and known.size > 0 and known.largest == 0
