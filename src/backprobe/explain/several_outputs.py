"""The report on several outputs: which entries each output reaches, and why it does not reach the others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from backprobe.cuts.missing_edges import Dataflow
from backprobe.explain.overview import explain_all
from backprobe.explain.text import say
from backprobe.findings.phrasing import conjoined, listed
from backprobe.findings.report import Finding, Report, grouped
from backprobe.record.entries import GradStatus, Record
from backprobe.record.several import of_output


def explain_outputs(record: Record) -> Report:
    """Report the values that no output reaches, with the causes; NaN and Inf of each output; and notes on which output
    reaches which values.
    """
    from backprobe.explain.nonfinite import explain_nonfinite  # imported late, because it imports NumPy

    missing, reached = explain_all(Dataflow.of(record)), tuple(_reached(record))
    every = {key: explain_nonfinite(of_output(record, key)) for key in record.by_output}
    born = {key: one for key, one in every.items() if not one.ok}
    is_asked = any(entry.finiteness is not None for entry in record.entries)
    if not born and not is_asked:
        return replace(missing, notes=(*reached, *missing.notes))
    heading = next(iter((born or every).values())).heading
    notes = (*dict.fromkeys(note for one in every.values() for note in one.notes), *reached)
    complete = all(one.complete for one in every.values())
    if is_asked:  # the report is about NaN and Inf, and a note says how to list missing gradients
        see = () if missing.ok else (say("see_names", heading=missing.heading),)
        return Report(heading, tuple(_hung(every)), (*notes, *see), complete=complete)
    return Report(heading, (*_hung(every), *missing), (*notes, *missing.notes), complete=complete)


def explain_in_each(record: Record, name: str, explain: Callable[[Record], Report]) -> Report:
    """Join the reports of all outputs on one value, given its printed name, into one report."""
    reports = {key: explain(of_output(record, key)) for key in record.by_output}
    (entry,) = (entry for entry in record.entries if entry.name == name)
    there = [key for key, one in entry.by_output.items() if one.status is GradStatus.OK]
    without = [key for key in reports if key not in there]
    code = "of_some" if there and without else "of_all" if there else "of_none"
    heading = say(code, value=repr(name), outputs=conjoined(there), others=conjoined(without))
    notes = dict.fromkeys(note for one in reports.values() for note in one.notes)
    notes.pop(say("own_grad", value=repr(name)), None)  # redundant, because the heading says which gradients exist
    return Report(heading, tuple(_merged(reports)), tuple(notes))


def _hung(reports: Mapping[str, Report]) -> Iterator[Finding]:
    # Yield the findings of all outputs, each once. A bad gradient that the program computed itself is placed below the
    # finding on its birth in that backward pass.
    causes: dict[str, str] = {}
    for report in reports.values():
        began = next((one.headline for one in report.of_kind("born_backward") if not one.cause), "")
        if began:
            causes |= {one.name: began for one in report.of_kind("propagated", "propagated_to")}
    # maps the headline of each finding with a cause to the headline of its root cause, which is printed above it
    beneath: dict[str, str] = {}
    for one in _merged(reports):
        cause = beneath.get(one.cause, "")
        if one.kind == "born" and not one.cause and one.name in causes:
            cause = beneath[one.headline] = causes[one.name]
        yield replace(one, cause=cause) if cause else one


def _merged(reports: Mapping[str, Report]) -> Iterator[Finding]:
    # Yield the findings of all outputs, each once, with the outputs that it is about.
    every = [(key, one) for key, report in reports.items() for one in report.findings]
    for group in grouped(every, lambda pair: (pair[1].kind, pair[1].name, pair[1].headline, pair[1].source)):
        keys, first = list(dict.fromkeys(key for key, _ in group)), group[0][1]
        about = [] if len(keys) == len(reports) else [say("about_outputs", outputs=conjoined(keys))]
        yield replace(first, facts=(*first.facts, *about))


def _reached(record: Record) -> Iterator[str]:
    # Yield a note for each group of values that are reached by the same outputs, without the outputs themselves.
    keys = tuple(record.by_output)
    groups: dict[tuple[str, ...], list[str]] = {}
    for at, entry in enumerate(record.entries):
        there = tuple(key for key, one in entry.by_output.items() if one.status is GradStatus.OK)
        if there and at not in record.outputs:
            groups.setdefault(there, []).append(entry.name)
    for there, names in sorted(groups.items(), key=lambda group: -len(group[0])):
        code = "reached_by_all" if there == keys else "reached_by_one" if len(there) == 1 else "reached_by_some"
        others = conjoined([key for key in keys if key not in there])
        yield say(code, outputs=conjoined(there), others=others, names=listed(names))
