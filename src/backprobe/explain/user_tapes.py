"""Gradients that the program asked a tape of its own for, and that came back as None."""

from __future__ import annotations

import re
from collections.abc import Sequence

from backprobe.cuts.cutting_operations import ASSIGNING, called_in
from backprobe.cuts.missing_edges import Dataflow
from backprobe.explain.about_entries import COUNT, as_code, as_one, is_said, merged
from backprobe.explain.cut_findings import cut_finding
from backprobe.explain.text import finding, instead_of_flat, say
from backprobe.findings.phrasing import listed, location
from backprobe.findings.report import Finding, grouped
from backprobe.record.entries import CutBy, CutOperation, GradStatus, NoneGiven, Record, WhyNone

CODES = {WhyNone.OUTSIDE: "outside_tape", WhyNone.NOT_WATCHED: "not_watched", WhyNone.NOT_FLOAT: "not_float.asked"}
SAID = {WhyNone.NO_WAY: "no_way", WhyNone.UNKNOWN: "why_unknown"}

POSITIONS = ("ArgMax", "ArgMin", "Where", "TopKV2", "InTopKV2")
COMPARISONS = (
    "Equal", "NotEqual", "Less", "LessEqual", "Greater", "GreaterEqual", "ApproximateEqual", "IsNan", "IsInf",
    "IsFinite",
)  # fmt: skip
"""What TensorFlow calls operations that give positions, and those that give truth values."""
SAMPLING = re.compile("Multinomial|Random|Categorical|Bernoulli")
"""Parts of what it calls those that draw samples."""
CASTS = ("Cast", "Bitcast", "SaturateCast")
CUT_BY = {CutBy.STOP_GRADIENT: "stop_gradient", CutBy.STOPPED: "tape_stopped", CutBy.ASSIGNED: "assigned"}


def none_given(record: Record, name: str | None = None, findings: Sequence[Finding] = ()) -> list[Finding]:
    """What tapes of the program's own did not give: for one entry, or each cause once for all.

    Of lines that one of these findings names already, nothing more is said.
    """
    asked = [one for one in record.none_given if name in (None, one.name) and not _is_explained(record, one)]
    groups = grouped(asked, lambda one: (one.source, one.why, one.outside, one.cuts, one.targets))
    found = [finding for group in groups for finding in _findings(record, group)]
    return [one for one in found if not is_said(one.source, findings)]


def _is_explained(record: Record, one: NoneGiven) -> bool:
    """Is what cuts it off a finding of its own?"""
    if record.training is not None and one.is_variable and one.why is WhyNone.NO_WAY:
        return True
    is_unknown = one.why is WhyNone.NO_WAY and one.at is not None
    return is_unknown and record.entries[one.at or 0].status is GradStatus.NOT_CONNECTED


def _findings(record: Record, group: list[NoneGiven]) -> list[Finding]:
    first = group[0]
    if first.why is WhyNone.CUT:
        names = listed([one.name for one in group])
        cuts = [_cut(record, first, cut, names) for cut in first.cuts]
        return [as_one(same) for same in grouped(cuts, lambda one: (COUNT.sub("", one.headline), one.source))]
    if first.why is WhyNone.NOTHING:
        line = first.source
        return [finding("asked_for_nothing", "", line, record.framework, text=f"`{line.text.strip()}`")]
    mentioned = _mentioned(record, first) if first.why in SAID else []
    return mentioned or [as_one([_finding(record, one) for one in group])]


def _cut(record: Record, one: NoneGiven, cut: CutOperation, names: str) -> Finding:
    """An operation that lets no gradient through."""
    asked = {each.at: each.name for each in record.none_given}  # which is what the program calls it
    values = [asked.get(at, record.entries[at].name) for at in cut.values] or [one.name]
    value, plain = listed([*map(repr, values)]), values[0]
    flat = instead_of_flat(cut.operation.lower(), record.framework)
    code = CUT_BY.get(cut.by) or (
        "index" if cut.operation in POSITIONS else "comparison" if cut.operation in COMPARISONS
        else "no_derivative" if cut.by is CutBy.NO_DERIVATIVE
        else "sample.discrete" if SAMPLING.search(cut.operation)
        else "operation_dtype" if cut.operation in CASTS else "operation_dtype.whole"
    )  # fmt: skip
    if code == "index" and not _is_argument(plain, cut.source.text):  # its operand has no name
        value, plain = f"what is computed from {value}", "..."
    target = "the result"
    facts = [say("none_for", names=names), say("asked_for", at=location(one.source))]
    return finding(
        code, one.name, cut.source, record.framework, facts=facts, value=value, plain=as_code(plain),
        text=_text(cut), target=target, dtype=cut.dtype, instead=flat,
    )  # fmt: skip


def _text(cut: CutOperation) -> str:
    """The operation in the program's words, where its line shows them, else as TensorFlow calls it."""
    call = called_in(cut.source.text, ASSIGNING) if cut.by is CutBy.ASSIGNED else ""
    return f"`{call}`" if call else f"the operation {cut.operation}"


def _is_argument(name: str, line: str) -> bool:
    """Is the value of this name, as it is, given to a call on this line?"""
    plain = re.escape(name.rpartition(":")[2].partition("#")[0])
    return re.search(rf"[(,=]\s*([\w.]+\.)?{plain}\s*([,)]|$)", line.strip()) is not None


def _mentioned(record: Record, one: NoneGiven) -> list[Finding]:
    """The lines that cut off what the tape differentiated, as the program's text says it: NumPy does it unseen."""
    flow = Dataflow(record, has_run=False)
    before = flow.before(one.targets)
    if one.at is not None and one.at not in before:
        return []
    cuts = [
        cut
        for cut in flow.severing(before, one.targets)
        if one.at is None or one.at in flow.before([cut.mention.source])
    ]
    chains = [flow.chain(flow.after(cut.mention.source), cut.target) for cut in cuts]
    return merged([cut_finding(flow, cut, chain) for cut, chain in zip(cuts, chains, strict=True)])


def _finding(record: Record, one: NoneGiven) -> Finding:
    outside = record.entries[one.outside[-1]] if one.outside else None
    facts = [say("asked_for", at=location(one.source))]
    if one.at is not None and record.entries[one.at].status is GradStatus.OK:
        facts.append(say("own_tape"))
    code = CODES.get(one.why, "none_given")
    return finding(
        "not_watched.variable" if code == "not_watched" and one.is_variable else code, one.name,
        (outside and outside.source) or one.source, record.framework,
        facts=facts, value=repr(one.name), plain=as_code(one.name),
        reason=say(SAID[one.why]) if one.why in SAID else "",
        target="a part of the way to it" if outside is None else repr(outside.name), dtype=one.dtype,
    )  # fmt: skip
