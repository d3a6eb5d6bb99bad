"""Gradients that the program requested from its own tape, or with ``tf.gradients``, and received as None or zeros."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from backprobe.cuts.in_line import argument_of, called_in, names_bound, names_in
from backprobe.cuts.missing_edges import Dataflow
from backprobe.cuts.operation_names import ASSIGNING
from backprobe.explain.about_entries import COUNT, as_code, as_one, is_said, merged
from backprobe.explain.cut_findings import cuts_before
from backprobe.explain.instead import SIDES, value_at
from backprobe.explain.text import finding, instead_of_flat, say
from backprobe.findings.known import Known
from backprobe.findings.phrasing import listed, location, uncommented
from backprobe.findings.report import Finding, grouped
from backprobe.record.entries import Entry, GradStatus, Record
from backprobe.record.none_gradients import CutBy, CutOperation, NoneGiven, WhyNone
from backprobe.record.source import Source

CODES = {
    WhyNone.OUTSIDE: "outside_tape",
    WhyNone.WATCHED_LATE: "watched_late",
    WhyNone.NOT_WATCHED: "not_watched",
    WhyNone.NOT_TRAINABLE: "not_watched.not_trainable",
    WhyNone.NOT_FLOAT: "not_float.asked",
    WhyNone.WATCHED_AFTER: "watched_after",
    WhyNone.CONSTANT: "constant_target",
    WhyNone.HELD: "none_held",
}
SAID = {WhyNone.NO_WAY: "no_way", WhyNone.UNKNOWN: "why_unknown"}
UNSEEN = (*SAID, WhyNone.CONSTANT)
"""Reasons that name no line. The line may be found in the program's text, or among the values that left TensorFlow."""

SAMPLING = re.compile("Multinomial|Random|Categorical|Bernoulli")
"""Substrings in the names of operations that draw samples."""
MAKING = "Variable"
PREDICTING = ".predict"
OWN = {CutBy.OWN_NONE: "own_gradient", CutBy.OWN_ZERO: "own_gradient.zero"}
CALLED = (CutBy.ASSIGNED, CutBy.ZERO_DERIVATIVE, CutBy.LEFT, CutBy.INSIDE_ZERO)
CUT_BY = {
    CutBy.STOP_GRADIENT: "stop_gradient",
    CutBy.STOPPED: "tape_stopped",
    CutBy.ASSIGNED: "assigned",
    CutBy.ZERO_DERIVATIVE: "zero_derivative.operation",
    CutBy.LEFT: "numpy.function",
    CutBy.INSIDE_ZERO: "own_gradient.inside",
    **OWN,
}


def none_given(record: Record, name: str | None = None, findings: Sequence[Finding] = ()) -> list[Finding]:
    """Return findings about gradients that the program's own tapes gave as None or zeros, for one entry or for all
    entries.

    With ``name=None`` each cause is reported once for all entries. Lines named in ``findings`` are not repeated, and
    gradients whose absence another finding explains are left out.
    """
    asked = [one for one in record.none_given if name in (None, one.name) and not _is_explained(record, one)]
    groups = grouped(asked, lambda one: (one.source, one.why, one.outside, _operations(one), one.targets))
    found = [finding for group in groups for finding in _findings(record, group)]
    # group again without counts, because each iteration of a loop may give the same finding
    same = grouped(found, lambda one: (one.kind, one.source, COUNT.sub("", one.headline)))
    return [one for one, *_ in same if not is_said(one.source, findings)]


def _operations(one: NoneGiven) -> tuple[CutOperation, ...]:
    # Return the cuts without their ``values``, so that equal cuts before different values compare equal.
    return tuple([replace(cut, values=()) for cut in one.cuts])


def _is_explained(record: Record, one: NoneGiven) -> bool:
    # Does another finding already explain the cut?
    if one.in_graph:  # the graph of a session shows the whole path
        return False
    # the value may have a gradient, though of another output
    is_there = one.at is not None and record.entries[one.at].status is GradStatus.OK
    if record.training is not None and one.is_variable and one.why is WhyNone.NO_WAY and not (one.cuts or is_there):
        carried = {each.name for each in record.training.untrained if each.carriers}
        # if a block ended with an error, its output is unknown
        return bool(record.outputs) or one.name not in carried
    is_unknown = one.why is WhyNone.NO_WAY and one.at is not None and not one.cuts
    return is_unknown and record.entries[one.at or 0].status is GradStatus.NOT_CONNECTED


def _findings(record: Record, group: list[NoneGiven]) -> list[Finding]:
    first = group[0]
    if first.why in (WhyNone.CUT, WhyNone.ZERO):
        names = listed([one.name for one in group])
        cuts = [_cut(record, first, cut, names) for cut in first.cuts]
        return [as_one(same) for same in grouped(cuts, lambda one: (COUNT.sub("", one.headline), one.source))]
    if first.why is WhyNone.NOTHING:
        line = first.source
        return [finding("asked_for_nothing", "", line, record.framework, text=f"`{line.text.strip()}`")]
    names = listed([one.name for one in group])
    is_unseen = first.why in UNSEEN and not first.in_graph
    known = (_mentioned(record, first) or _left(record, first, names)) if is_unseen else []
    return known or [as_one([_finding(record, one) for one in group])]


def _cut(record: Record, one: NoneGiven, cut: CutOperation, names: str) -> Finding:
    # Make the finding about an operation that passes no gradient on.
    asked = {each.at: each.name for each in record.none_given}  # the program's own name for the value
    values = [asked.get(at, record.entries[at].name) for at in cut.values] or [one.name]
    value, plain = listed([*map(repr, values)]), values[0]
    flat = instead_of_flat(cut.operation.lower(), record.framework)
    is_so = {
        "index": cut.operation.lower() in SIDES,
        "comparison": cut.dtype == "bool",
        "no_derivative": cut.by is CutBy.NO_DERIVATIVE,
        "sample.discrete": SAMPLING.search(cut.operation) is not None,
        "operation_dtype": cut.by is CutBy.CAST,
    }
    code = CUT_BY.get(cut.by) or next((code for code, holds in is_so.items() if holds), "operation_dtype.whole")
    text = _text(cut)
    code = "parameter" if code == "assigned" and MAKING in text else code
    if code == "index" and not _is_argument(plain, cut.source.text):  # the operand has no name
        value, plain = f"what is computed from {value}", "..."
    if code in ("assigned", "parameter") and not _is_mentioned(plain, text):
        value = f"`{given}`" if (given := argument_of(text.strip("`"))) else value
    target = "the result"
    what = "zeros_for" if one.why is WhyNone.ZERO else "none_for"
    facts = [say(what, names=names, giver=_giver(one)), say("asked_for", at=location(one.source))]
    return finding(
        code,
        one.name,
        cut.source,
        record.framework,
        facts=facts,
        value=value,
        plain=as_code(plain),
        text=text,
        target=target,
        dtype=cut.dtype,
        instead=flat,
        known=_known(one, cut),
        at_position=value_at(called_in(cut.source.text, SIDES), record.framework),
    )


def _known(one: NoneGiven, cut: CutOperation) -> Known:
    # Return the known facts about the cause: the operation was observed, and a gradient of zero does exist. The zero of
    # an operation such as ``tf.py_function`` may be another number in the next run.
    known = Known.OBSERVED | (Known.GRADIENT_THERE if one.why is WhyNone.ZERO else Known.NOTHING)
    return known | (Known.MOMENTARY if cut.by is CutBy.INSIDE_ZERO else Known.NOTHING)


def _text(cut: CutOperation) -> str:
    # The operation as the program spells it, if its line does, else by TensorFlow's name.
    is_own = cut.by in OWN
    names = (
        {*ASSIGNING, MAKING} if cut.by is CutBy.ASSIGNED else (cut.operation.rpartition(".")[2], cut.operation.lower())
    )
    call = called_in(cut.source.text, names) if is_own or cut.by in CALLED else ""
    otherwise = cut.operation if cut.by in (CutBy.LEFT, CutBy.INSIDE_ZERO) else f"the operation {cut.operation}"
    return f"`{call}`" if call else "a tf.custom_gradient" if is_own else otherwise


def _is_argument(name: str, line: str) -> bool:
    # Is the value with this name passed unchanged to a call on this line?
    plain = re.escape(name.rpartition(":")[2].partition("#")[0])
    return re.search(rf"[(,=]\s*([\w.]+\.)?{plain}\s*([,)]|$)", line.strip()) is not None


def _is_mentioned(name: str, line: str) -> bool:
    plain = re.escape(name.rpartition(":")[2].partition("#")[0])
    return re.search(rf"(?<![\w.]){plain}(?!\w)", line) is not None


def _mentioned(record: Record, one: NoneGiven) -> list[Finding]:
    # Return findings at lines that cut off the target of the tape, by the program's text. They include conversions to
    # NumPy, which TensorFlow does not see.
    flow = Dataflow.of(record, has_run=False)
    before = flow.before(one.targets)
    training = record.training
    carried = () if training is None else [each.carriers for each in training.untrained if each.name == one.name]
    of_it = {at for carriers in carried for at in carriers} if training is not None else before
    of_it = of_it if one.at is None else {one.at}
    if of_it.isdisjoint(before):
        return []
    severing = flow.severing(before, one.targets)
    cuts = [cut for cut in severing if not of_it.isdisjoint(flow.before([cut.mention.source]))]
    return merged([found for cut in cuts for found in cuts_before(flow, cut.target, [cut])])


def _left(record: Record, one: NoneGiven, names: str) -> list[Finding]:
    # Return findings at lines that converted a Variable's results to numbers on the path to the differentiated value.
    # If no recorded line is on that path, all such lines count, except the one that requested the gradient, such as the
    # call of ``fit``.
    flow = Dataflow.of(record, has_run=False)
    entries = [record.entries[at] for at in flow.before(one.targets)]
    lines = [line for entry in entries for line in (entry.source, *(way.source for way in entry.indirect)) if line]
    is_known = bool(one.targets)
    used = {name for line in lines for name in names_in(line.statement)}
    cuts = [
        cut
        for cut in one.cuts
        if any(_is_within(cut.source, line) for line in lines)
        or used & names_bound(cut.source.statement)
        or not (is_known or _is_within(cut.source, one.source))
    ]
    facts = [say("none_for", names=names, giver=_giver(one)), say("asked_for", at=location(one.source))]
    return [
        finding(
            "numpy.predict" if PREDICTING in cut.source.text else "numpy.left",
            one.name,
            cut.source,
            record.framework,
            facts=facts,
            value=repr(one.name),
            known=Known.NOT_HOW,
        )
        for cut in cuts
    ]


def _giver(one: NoneGiven) -> str:
    # Name the object that returned None.
    return "tf.gradients" if one.in_graph else "a tape"


def _is_within(line: Source, statement: Source) -> bool:
    # Does the line belong to this statement?
    length = statement.statement.count("\n")
    return line.file == statement.file and statement.line <= line.line <= statement.line + length


def _rebound(record: Record, one: NoneGiven) -> Finding | None:
    # The finding at the line that bound the name of a Variable to a tensor computed from it.
    entry = None if one.at is None else record.entries[one.at]
    if entry is None or entry.source is None:
        return None
    name = _local(entry)
    if not any(_local(record.entries[at]) == name for at in one.variables):
        return None
    facts = [say("asked_for", at=location(one.source))]
    return finding(
        "not_watched.rebound",
        one.name,
        entry.source,
        record.framework,
        facts=facts,
        value=repr(name),
        plain=name,
        text=f"`{uncommented(entry.source)}`",
        target=entry.source.expression,
    )


def _local(entry: Entry) -> str:
    # Return the name of an entry without the number of its binding.
    return entry.name.partition("#")[0]


def _finding(record: Record, one: NoneGiven) -> Finding:
    rebound = _rebound(record, one) if one.why is WhyNone.NOT_WATCHED else None
    if rebound is not None:
        return rebound
    outside = record.entries[one.outside[-1]] if one.outside else None
    facts = [say("asked_for", at=location(one.source))]
    if one.at is not None and record.entries[one.at].status is GradStatus.OK and not one.in_graph:
        facts.append(say("own_tape"))
    code = CODES.get(one.why, "none_in_graph" if one.in_graph and one.why is WhyNone.NO_WAY else "none_given")
    targets = listed([repr(record.entries[at].name) for at in one.targets]) or "what is differentiated"
    return finding(
        "not_watched.variable" if code == "not_watched" and one.is_variable else code,
        one.name,
        (outside and outside.source) or one.source,
        record.framework,
        facts=facts,
        value=repr(one.name),
        plain=as_code(one.name),
        reason=say(SAID[one.why]) if one.why in SAID else "",
        target=targets if one.in_graph else "a part of the way to it" if outside is None else repr(outside.name),
        dtype=one.dtype,
        giver=_giver(one),
        known=Known.NOTHING if outside is None else Known.OBSERVED,
    )
