"""Findings about gradients that the program itself read as None: why, and where the gradient can be found."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from backprobe.backends.tensors import Arrays
from backprobe.cuts.missing_edges import Dataflow
from backprobe.explain.about_entries import own_name
from backprobe.explain.census import dropped_results
from backprobe.explain.graph_errors import spelling
from backprobe.explain.made_in_one_line import leaf_in, made_a_leaf
from backprobe.explain.missing import explain_missing
from backprobe.explain.text import finding, say
from backprobe.explain.without_history import without_history
from backprobe.findings.known import Known
from backprobe.findings.phrasing import MOST, conjoined, listed, location
from backprobe.findings.report import Finding, Report, grouped
from backprobe.record.brief import SMALL, brief
from backprobe.record.entries import Entry, GradStatus, Record
from backprobe.record.names import strip
from backprobe.record.none_gradients import NoneRead, WhyEmpty
from backprobe.record.source import expression_of

KEPT = ".grad"
MADE = (str(WhyEmpty.COMPUTED), "made_of_leaf")
"""For these codes, the report shows the line that computes the value."""

FEW = 3  # the most names that a remedy spells out, and the most causes that a finding gives
THERE = (WhyEmpty.COMPUTED, WhyEmpty.ITEM, WhyEmpty.CLEARED, WhyEmpty.RETAINED_LATE)
"""For these reasons, the report says where the gradient is, if the recording has it."""

BECAUSE = (WhyEmpty.COMPUTED, WhyEmpty.FROZEN, WhyEmpty.NOT_REACHED, WhyEmpty.GIVEN)
"""For these reasons, the recording may show a cause and a remedy."""

SAID = {WhyEmpty.FROZEN: Known.STATUS | Known.UNSURE, WhyEmpty.NOT_REACHED: Known.STATUS, WhyEmpty.GIVEN: Known.STATUS}
"""For each reason, facts that mark a finding as a mere repetition of the reason. Such findings are left out."""

LATER = (WhyEmpty.NOT_RUN, WhyEmpty.NOT_REACHED)
"""For these reasons, the gradient may have arrived after the read."""


@dataclass(frozen=True)
class _Read:
    # A read of a gradient, the entry of the tensor if there is one, and, for some codes, the leaf that had its name
    # before.
    one: NoneRead
    code: str
    entry: Entry | None
    before: Entry | None = None

    @property
    def value(self) -> str:
        # The tensor's name in a sentence.
        return repr(self.one.text.removesuffix(KEPT) if self.entry is None else self.entry.name)

    @property
    def is_there(self) -> bool:
        # Does the recording have the gradient of the tensor?
        return self.entry is not None and self.entry.status is GradStatus.OK


def opened_by_reads(record: Record, report: Report, arrays: Arrays) -> Report:
    """Put findings about gradients that the program read as None first in the report."""
    reads = _reads(record)
    if not reads:
        return report
    groups = grouped(reads, lambda read: (read.code, read.one.source, _text(read), read.is_there))
    texts = listed(list(dict.fromkeys(read.one.text for read in reads)))
    heading = say("none_read", texts=texts, heading=report.heading)
    found = [_beneath(_finding(record, group, report.findings, arrays), report.findings) for group in groups]
    causes = {one.cause for one in found}
    known = sorted(report.findings, key=lambda one: one.headline not in causes)
    return replace(report, heading=heading, findings=(*found, *known))


def _beneath(found: Finding, known: Sequence[Finding]) -> Finding:
    # Make the finding of a read a consequence of another finding, if one of its facts repeats that finding's headline.
    causes = [
        one.headline for one in known if not one.cause and any(fact.startswith(one.headline) for fact in found.facts)
    ]
    return replace(found, cause=causes[0]) if causes else found


def _reads(record: Record) -> list[_Read]:
    # The reads, except those that the note on an error already covers.
    known = [note.fields.get("known", "") for note in record.notes]
    told = [one for one in record.none_reads if not any(f"{one.text} is None" in text for text in known)]
    flow = Dataflow.of(record)
    return [_read(flow, one) for one in told]


def _text(read: _Read) -> str:
    # The text that was read; empty for reads of the inputs of one call, so that these reads form one finding.
    return "" if read.one.why is WhyEmpty.GIVEN else read.one.text


def _read(flow: Dataflow, one: NoneRead) -> _Read:
    # The read. Its code becomes more special if the recording shows how its name came to hold the tensor: by an
    # expression that makes an unnamed leaf, or in place of a leaf.
    code, entry = str(one.why), None if one.at is None else flow.entries[one.at]
    if entry is None or one.at is None:
        return _Read(one, code, entry)
    before = _leaf_before(flow.record, one.at)
    if one.why is WhyEmpty.COMPUTED and entry.source is not None and leaf_in(entry.source.expression):
        return _Read(one, "made_of_leaf", entry)
    if before is None:
        return _Read(one, code, entry)
    if one.why in (WhyEmpty.COMPUTED, WhyEmpty.FROZEN) and flow.position[before.name] in flow.before([one.at]):
        is_update = entry.source is not None and KEPT in entry.source.statement
        return _Read(one, "updated" if is_update else "rebound", entry, before)
    is_other = one.why is WhyEmpty.NOT_REACHED and entry.status is not before.status is GradStatus.OK
    return _Read(one, "other_leaf", entry, before) if is_other else _Read(one, code, entry)


def _leaf_before(record: Record, at: int) -> Entry | None:
    # Return the last leaf that had this entry's name before. Return None if there is none, or if no line computes the
    # entry, as for a loop variable.
    entry = record.entries[at]
    if not expression_of(entry.source):
        return None
    own = next(
        strip(full) for full, position in record.names.items() if position == at and record.printed[full] == entry.name
    )
    earlier = sorted({position for full, position in record.names.items() if position < at and strip(full) == own})
    found = [record.entries[position] for position in earlier if record.entries[position].is_leaf]
    return found[-1] if found else None


def _finding(record: Record, group: Sequence[_Read], known: Sequence[Finding], arrays: Arrays) -> Finding:
    # Make the finding for one line that reads the gradients of one or more tensors.
    first, each = group[0], _each_name_once(group)
    facts = list(dict.fromkeys(fact for read in each[:MOST] for fact in _seen(record, read, arrays)))
    reasons = [_why(record, read, known) for read in each]
    why, remedy = dict.fromkeys(fact for facts, _ in reasons for fact in facts), reasons[0][1]
    names, values = [_spelled(record, read) for read in each], _values(each)
    is_one = len(each) == 1
    fields = {
        "text": first.one.text,
        "value": first.value,
        "values": conjoined(values) if len(values) <= MOST else listed(values),
        "are": "is" if is_one else "are",
        "leaves": "a leaf" if is_one else "leaves",
        "do": "does" if is_one else "do",
        "each": _calls(names, "retain_grad()"),
        "differentiated": _calls(names, "requires_grad_()"),
        "name": names[0],
        "instead": remedy,
        **_of_leaf(first),
        **_remedies(first),
    }
    code = f"none_read.{first.code}.because" if remedy and first.code in BECAUSE else f"none_read.{first.code}"
    name = "" if first.entry is None else first.entry.name
    source, every = first.one.source, [*facts, *why]
    return finding(code, name, source, record.framework, facts=every, chain=(), known=Known.NOTHING, **fields)


def _remedies(read: _Read) -> dict[str, str]:
    # Return where the gradient can be read instead: in a recording, or at the same index of the whole tensor's
    # gradient.
    owner, _, index = read.one.text.removesuffix(f"]{KEPT}").rpartition("[")
    is_kept = read.entry is None or read.entry.is_leaf
    code = "none_read_item" if is_kept else "none_read_item_retained"
    return {
        "otherwise": "" if read.entry is None else say("none_read_recorded", value=repr(read.entry.name)),
        "item": say(code, owner=owner, index=index) if read.one.why is WhyEmpty.ITEM else "",
    }


def _each_name_once(group: Sequence[_Read]) -> list[_Read]:
    # Return one read for each name. For a value that a loop computes repeatedly, return the first.
    def name(read: _Read) -> str:
        is_computed = read.entry is not None and bool(expression_of(read.entry.source))
        return strip(read.value) if is_computed else read.value

    return [same[0] for same in grouped(group, name)]


def _values(each: Sequence[_Read]) -> list[str]:
    # The names of the tensors as in the recording. A single tensor that the program reads by a path, such as
    # ``self.w``, is named by this path.
    owner = each[0].one.text.removesuffix(KEPT)
    is_path = len(each) == 1 and each[0].one.why is not WhyEmpty.ITEM and not owner.isidentifier() and owner
    return [repr(owner)] if is_path else [read.value for read in each]


def _calls(names: Sequence[str], call: str) -> str:
    # Return calls of this method on the first ``FEW`` tensors, as the program would write them, and the number of the
    # others. If one has no name, the words are for all of them.
    if not all(names):
        return f"{call} on it"
    more = f"; and so for {len(names) - FEW} more," if len(names) > FEW else ""
    return "; ".join(f"{name}.{call}" for name in names[:FEW]) + more


def _spelled(record: Record, read: _Read) -> str:
    # The tensor as the program writes it, preferably not by the variable of a loop.
    own = "" if read.entry is None else spelling(record, read.entry)
    return own or read.one.text.removesuffix(KEPT)


def _seen(record: Record, read: _Read, arrays: Arrays) -> list[str]:
    # Return the facts: the lines involved, and where the recording has the gradient, if it does.
    cause, entry = read.one.cause, read.entry
    found = [] if cause is None else [say(f"none_read_by.{read.one.why}", at=location(cause))]
    if entry is not None and entry.source is not None and read.code in MADE:
        found.append(say("none_read_made", value=repr(entry.name), at=location(entry.source)))
    there = [one for one in (read.before, entry) if one is not None]
    if entry is not None and entry.status is not GradStatus.OK:
        there += [record.entries[edge.at] for edge in entry.inputs]  # a view shares the gradient of its base
    shown = [*THERE, *LATER, WhyEmpty.FROZEN] if read.before is not None else [*THERE, *LATER]
    for one in there if read.one.why in shown else ():
        code = "none_read_later" if read.one.why in LATER and one is entry else "none_read_there"
        found += [
            say(code, value=repr(one.name), read=spelled, gradient=_number(gradient, arrays))
            for spelled, gradient in _held(one)
        ]
    return found


def _held(entry: Entry) -> list[tuple[str, object]]:
    # The gradients that an entry has, each with the expression that reads it; of several outputs, one for each.
    if entry.is_of_several:
        return [(f"rec[{entry.name!r}].grads[{key!r}]", gradient) for key, gradient in entry.grads.items()]
    return [(f"rec[{entry.name!r}].grad", entry.held_grad)] if entry.status is GradStatus.OK else []


def _number(gradient: object, arrays: Arrays) -> str:
    # Return a gradient as text: its numbers if they are few, else its shape and, if it is finite, its norm.
    known = arrays.summary(gradient)
    if known is not None and known.size <= SMALL:
        return arrays.to_text(gradient)
    if known is None or known.nonfinite:
        return brief(gradient)
    return say("none_read_norm", gradient=brief(gradient), norm=f"{known.rms * known.size**0.5:.4g}")


def _why(record: Record, read: _Read, known: Sequence[Finding]) -> tuple[list[str], str]:
    # Return reasons and a remedy: the line that removed the gradient, if the recording shows it, and what to write.
    if read.code not in BECAUSE:
        return [], ""
    if read.entry is None:
        names = re.compile(rf"(?<![\w.]){re.escape(read.one.text.removesuffix(KEPT))}(?![\w.])")
        found = [one for one in known if one.source is not None and any(map(names.search, one.facts))]
        return _as_reasons(found)
    flow, entry = Dataflow.of(record), read.entry
    dropped: list[Finding] = []
    if read.one.why is WhyEmpty.FROZEN:
        found = without_history(flow, flow.position[entry.name])
    elif entry.status is GradStatus.OK:
        return [], say("none_read_wait") if read.one.why is WhyEmpty.NOT_REACHED else ""
    elif entry.status is GradStatus.BACKWARD_NOT_RUN:
        return [], ""
    else:
        training = record.training
        lost = () if training is None else training.untrained
        found = [*explain_missing(flow, entry).findings]
        dropped = [each for one in lost if one.own == flow.position[entry.name] for each in dropped_results(flow, one)]
    said = SAID.get(read.one.why, Known.NOTHING)
    return _as_reasons([*dropped, *(one for one in found if not one.known & said)])


def _as_reasons(found: Sequence[Finding]) -> tuple[list[str], str]:
    why = [one.headline + (f" ({location(one.source)})" if one.source is not None else "") for one in found[:FEW]]
    return why, found[0].remedy if found else ""


def _of_leaf(read: _Read) -> dict[str, str]:
    # Return fields for sentences about leaves, such as the unnamed leaf in the entry's expression, and the expression
    # that makes a leaf of the whole result.
    entry, before = read.entry, read.before
    source = None if entry is None else entry.source
    text = expression_of(source)
    return {
        "leaf": leaf_in(text),
        "one_step": made_a_leaf(text),
        "expression": text,
        "plain": "" if entry is None else own_name(entry.name),
        "before": "" if before is None else repr(before.name),
        "line": "" if source is None else location(source),
    }
