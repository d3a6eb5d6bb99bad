"""Finds the causes of one entry's missing gradient, each with its line.

If the value has a history, the gradient is usually missing because the value is cut off, recomputed, or not used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from backprobe.backends.dialects import dialect_of
from backprobe.backends.later_reads import passed_to
from backprobe.cuts.lines import line_of
from backprobe.cuts.missing_edges import Cut, Dataflow
from backprobe.cuts.parsed import has_part, parsed, unread
from backprobe.explain.about_entries import (
    about,
    by_status,
    is_returned,
    merged,
    names_of,
    own_name,
    scopes_of,
    with_fact,
)
from backprobe.explain.cut_findings import cut_finding, cut_findings, lost_beside, with_hooks
from backprobe.explain.faultless import is_of_gradients
from backprobe.explain.loaded import lines_below, loaded
from backprobe.explain.module_calls import of_call
from backprobe.explain.text import say
from backprobe.explain.undifferentiated import CODE, last_cut
from backprobe.explain.user_tapes import none_given
from backprobe.explain.without_history import hidden_findings, made_leaves, without_history
from backprobe.findings.known import Known
from backprobe.findings.phrasing import listed, location, named, uncommented
from backprobe.findings.report import Finding, Report
from backprobe.record.entries import LINES_OF_THEIR_OWN, Entry, GradStatus, Record
from backprobe.record.names import split, strip
from backprobe.record.reasons import CUT_IN_GRAPH, WRITTEN_SINCE, Note
from backprobe.record.source import Source, expression_of
from backprobe.record.training import HOOK
from backprobe.source.sites import names_read

CUT_BEFORE = (GradStatus.DETACHED, GradStatus.NO_GRAD, GradStatus.FROZEN, GradStatus.NOT_FLOAT, GradStatus.NOT_TENSOR)

After = dict[int, int | None]
"""A value and the values that depend on it, each with its predecessor: see ``Dataflow.after``."""


def explain_missing(flow: Dataflow, entry: Entry) -> Report:
    """The report with the causes that keep the gradient from one entry, as far as the recording shows them."""
    at, beside = flow.position[entry.name], []
    if entry.status is GradStatus.NOT_CONNECTED:
        findings = not_connected(flow, at)
        beside = flow.beside(flow.after(at).keys() & flow.leading)
    elif entry.status in CUT_BEFORE:
        findings = without_history(flow, at)
    else:
        findings = [*(last_cut(flow.record) if entry.is_because(CODE) else ()), by_status(flow, entry)]
    is_frozen = any(finding.kind in ("frozen", "frozen_leaf") for finding in findings)
    is_otherwise = entry.is_because("frozen") and not is_frozen
    heading = say(
        "missing" if is_otherwise else "missing_because",
        value=repr(entry.name),
        status=entry.status,
        reason=entry.reason,
    )
    findings = merged([*findings, *made_leaves(flow)]) + none_given(flow.record, entry.name)
    return Report(heading, tuple(findings), tuple(lost_beside(flow, beside)))


def not_connected(flow: Dataflow, at: int) -> list[Finding]:
    """The findings of the first explanation that applies. The last of ``EXPLANATIONS`` always applies."""
    after = flow.after(at)
    return next(found for explain in EXPLANATIONS if (found := list(explain(flow, at, after))))


def taken_away(flow: Dataflow, at: int) -> list[Finding]:
    """The findings of ``not_connected``, except those about values of which only the derivative was used."""
    return [one for one in not_connected(flow, at) if Known.NOTHING_LOST not in one.known]


def _cut(flow: Dataflow, at: int, after: After) -> list[Finding]:
    # Return findings on the cuts on paths from the value to an end, except updates, and on the values computed from it
    # that ``replace=`` has replaced.
    replaced = {mention.target: mention for mention in flow.replaced(after)}
    return [
        about(
            flow,
            "replaced",
            flow.entries[target],
            flow.entries[target].source,
            value=repr(flow.entries[at].name),
            chain=(*flow.chain(after, mention.source), flow.entries[target].name),
        )
        for target, mention in replaced.items()
    ] + cut_findings(flow, at, [cut for cut in flow.cuts(at) if not _is_update(flow, at, cut)])


def _is_update(flow: Dataflow, at: int, cut: Cut) -> bool:
    # Does the line assign a gradient, or a value computed from gradients alone, to a Variable? This is the step of a
    # training, through which no gradient of another value should flow.
    is_asked = is_of_gradients(flow, at)
    return not is_asked and cut.mention.use.kind == "assigned" and is_of_gradients(flow, cut.mention.source)


def _in_graph(flow: Dataflow, at: int, after: After) -> Iterator[Finding]:
    # Yield a finding if the framework's graph shows what cuts every path to the output: operations, or a gradient
    # function of the program. The graph knows more than the recording.
    entry = flow.entries[at]
    if entry.why is not None and entry.is_because(*CUT_IN_GRAPH):
        operations = entry.why.fields.get("operations")
        code = "graph_cut" if operations else "graph_cut.by_hand"
        yield about(flow, code, entry, entry.cause or entry.source, operations=operations or "")


def _assigned(flow: Dataflow, at: int, after: After) -> Iterator[Finding]:
    # Yield the assignment that cuts the value off, if the backend reported one.
    entry = flow.entries[at]
    if entry.is_because("assigned") and entry.cause is not None:
        yield about(flow, "assigned", entry, entry.cause, text=f"`{entry.cause.text.strip()}`")


def _differentiated(flow: Dataflow, at: int, after: After) -> Iterator[Finding]:
    # Yield the first line that uses only the derivative of the value, or of one computed from it, as in a gradient
    # penalty, if the line leads to an output.
    first = next((flow.derived[each] for each in after if each in flow.derived), None)
    if first is None or first.target not in flow.leading:
        return
    value, target = repr(flow.entries[first.source].name), flow.entries[first.target]
    chain = (*flow.chain(after, first.source), target.name)
    yield about(
        flow,
        "differentiated",
        target,
        first.line or target.source,
        chain=chain,
        value=value,
        text=f"`{first.use.text}`",
        known=Known.NOTHING_LOST,
    )


def _not_run(flow: Dataflow, at: int, after: After) -> Iterator[Finding]:
    # Yield a finding if the entry is a parameter that no recorded value uses, of a module that did not run, or of a
    # submodule of such a module.
    above = flow.modules_above(at) if len(after) == 1 else ()
    idle = next((flow.entries[one] for one in above if flow.entries[one].status is GradStatus.NOT_EXECUTED), None)
    if idle is not None:
        facts = [say("unseen_run")] if dialect_of(flow.record.framework).runs_backward else []
        yield about(
            flow, "not_executed.module", flow.entries[at], None, facts=facts, module=repr(idle.name), known=Known.STATUS
        )


def _not_taken(flow: Dataflow, at: int, after: After) -> Iterator[Finding]:
    # Yield a finding if every path of uses from the entry leads into a branch that was not taken.
    idle, pending, seen = list[int](), [at], {at}
    while pending:
        following = flow.consumers[pending.pop()]
        if not following:
            return
        idle += [one for one in following if flow.entries[one].status is GradStatus.NOT_EXECUTED]
        onward = [one for one in following if one not in seen and one not in idle]
        pending += onward
        seen.update(onward)
    if idle and seen.isdisjoint(flow.ends):
        yield about(flow, "not_taken", flow.entries[at], flow.entries[idle[0]].source, chain=flow.chain(after, idle[0]))


def _written_since(flow: Dataflow, at: int, after: After) -> Iterator[Finding]:
    # Yield a finding if the output may be computed from a later version of the entry, as in later training steps.
    entry = flow.entries[at]
    if entry.is_because(*WRITTEN_SINCE):
        yield about(flow, "written_since", entry, entry.source, facts=_ends(flow, at, after), known=Known.ANOTHER)


def _left_out(flow: Dataflow, at: int, after: After) -> list[Finding]:
    # Used if no cut is found: return the finding on the first line, on a path to an output, that mentions the value, or
    # one computed from it, but may not use it.
    return cut_findings(flow, at, flow.left_out(at))


def _out_of_sight(flow: Dataflow, at: int, after: After) -> list[Finding]:
    # Return cuts whose path to the output is only partly recorded: those whose result leaves a function; else those
    # before an unnamed output; else those before a name that was not selected; else those of unrecorded values, such as
    # closure variables.
    dead = [cut for cut in flow.among({*after}) if flow.entries[cut.target].status in LINES_OF_THEIR_OWN]
    left = [cut for cut in dead if _leaves(flow, cut.target)]
    if left:
        return cut_findings(flow, at, left)
    found = list(_into_backward(flow, at, after))
    if found:
        return found
    if _is_partial(flow, _last(flow, after)):
        return [with_fact(one, say("not_selected_on", target=repr(one.name))) for one in cut_findings(flow, at, dead)]
    return hidden_findings(flow, flow.leading, of=at)


def _into_backward(flow: Dataflow, at: int, after: After) -> Iterator[Finding]:
    # Yield cuts before an unnamed expression on which backward was called, such as ``(y * w).sum()``. The recording
    # does not show the names in that expression, so its line is read from the file.
    outputs = [flow.entries[one] for one in flow.record.outputs]
    is_unnamed = any(entry.source is None and strip(entry.name) == "backward()" for entry in outputs)
    for cut in flow.among({*after}) if is_unnamed else ():
        target = flow.entries[cut.target]
        if target.source is None or target.status not in CUT_BEFORE:
            continue
        root = own_name(target.name).partition(".")[0]
        lines = (line for line in lines_below(target.source) if ".backward(" in line.text)
        used = next((line for line in lines if root in _names(line.text)), None)
        if used is not None:
            yield from (
                with_fact(one, say("unnamed_output", at=location(used))) for one in cut_findings(flow, at, [cut])
            )


def _names(statement: str) -> Sequence[str]:
    tree = parsed(statement)
    return () if tree is None else names_read(tree)


def _as_others(flow: Dataflow, at: int, after: After) -> list[Finding]:
    # A line with a list may produce more values than backprobe follows. The cuts of the line's first value then explain
    # the others.
    limits = passing_on_many(flow.record)
    first = flow.first_of_line.get(at) if limits else None
    if first is None or not (cuts := flow.cuts(first)):
        return []
    fact = say("as_another", value=repr(flow.entries[first].name), limit=limits[0])
    # the fact added to each finding says that the cut was found at the first value of the line, not at this one
    return [with_fact(found, fact) for found in cut_findings(flow, first, cuts)]


def passing_on_many(record: Record) -> list[Note]:
    """Return the notes about lists with more values than backprobe follows.

    It is unknown how the other values are used.
    """
    return [note for note in record.notes if note.code == "passes_on_many"]


def _leaves(flow: Dataflow, at: int) -> bool:
    # Is the value returned, or stored in an attribute or item, where other code may use it?
    names = names_of(flow, at)
    return any(name.endswith(":return") or "." in name.rpartition(":")[2] or "[" in name for name in names)


def _is_partial(flow: Dataflow, at: int) -> bool:
    # Is there an unselected name in a scope where this value has a name? The value may then flow into that name. The
    # answer is no for a value without a line.
    scopes = {split(name)[0] for name in names_of(flow, at)}
    return flow.entries[at].source is not None and any(split(name)[0] in scopes for name in flow.record.unseen)


def _made_again(flow: Dataflow, at: int, after: After) -> Iterator[Finding]:
    # Yield a finding at another line that computes the same expression from the same values.
    entry = flow.entries[at]
    text = expression_of(entry.source)
    read = {read.spelled: read.name for read in entry.reads}
    # two identical lines that create leaves create different leaves
    for target in sorted(flow.leading) if text and not (entry.is_leaf and not read) else ():
        other = flow.entries[target]
        if target == at or other.source is None or not has_part(other.source.expression, text):
            continue
        is_known = not unread(text, frozenset(read))
        is_one_line = entry.source == other.source  # the same line ran again, perhaps with other inputs
        is_same = is_known or (scopes_of(flow, at) == scopes_of(flow, target) and not is_one_line)
        if is_same and {one.spelled: one.name for one in other.reads if one.spelled in read} == read:
            chain = (*dict.fromkeys(read.values()), entry.name)
            yield about(
                flow,
                "made_again",
                entry,
                line_of(other.source, text),
                chain=chain,
                text=f"`{text}`",
                again=repr(other.name),
                facts=[named(entry)],
                known=Known.ANOTHER,
            )
            return


def _other_call(flow: Dataflow, at: int, after: After) -> Iterator[Finding]:
    # Yield a finding that names the entries which have the same name with another count, and a gradient, as from
    # another run of the same code.
    entry = flow.entries[at]
    others = [
        one.name
        for one in flow.entries
        if one is not entry and strip(one.name) == strip(entry.name) and one.status is GradStatus.OK
    ]
    if others:
        yield about(
            flow,
            "other_call",
            entry,
            entry.source,
            facts=_ends(flow, at, after),
            others=listed([f"rec[{name!r}]" for name in others]),
            known=Known.ANOTHER,
        )


def _called(flow: Dataflow, at: int, after: After) -> Iterator[Finding]:
    # Yield findings at lines that use the value, or one computed from it, if no recorded value shows that use: lines of
    # a block that use the return values of modules, or parameters.
    used = {one.at: one.uses for one in flow.record.used_at if one.uses[0].mode != HOOK}
    for end in after if used else ():
        for call in used.get(end, ()):
            found = with_hooks(flow, of_call(flow, flow.entries[at].name, call))
            yield replace(found, chain=flow.chain(after, end) if end != at else ())


def _cut_before(flow: Dataflow, at: int, after: After) -> list[Finding]:
    # The cuts of the value, and of values computed from it, if the last recorded value after the cut is received by a
    # statement that is not recorded.
    after = flow.after(at, to_leaves=False)
    cuts = [cut for cut in flow.among({*after}) if cut.mention.use.kind and _is_passed_on(flow, cut.target)]
    return cut_findings(flow, at, cuts)


def _is_passed_on(flow: Dataflow, at: int) -> bool:
    return any(_reading(flow, each) is not None for each in flow.after(at) if not flow.consumers[each])


def _reading(flow: Dataflow, at: int) -> Source | None:
    # The statement that receives a computed value, if no later use of the value is recorded.
    last = flow.entries[at]
    if last.source is None or last.is_leaf or at in flow.record.outputs or flow.consumers[at]:
        return None
    return passed_to(last.source, own_name(last.name).partition(".")[0])


def _unused(flow: Dataflow, at: int, after: After) -> Iterator[Finding]:
    # Yield the finding that no recorded value leads from the entry to the output.
    after = flow.after(at, to_leaves=False)
    end = _last(flow, after)
    lost = [cut_finding(flow, cut).headline for cut in flow.among({*after}) if cut.mention.use.kind]
    facts = [*_ends(flow, at, after), *lost[:1], *_replaced(flow)]
    chain = flow.chain(after, end) if end != at else ()
    if end != at and is_returned(flow, end) and not any(entry.source for entry in flow.entries):
        facts.append(say("callers"))
        yield about(flow, "unknown.callers", flow.entries[at], None, chain=chain, facts=facts, known=Known.STATUS)
    else:
        yield replace(_leading_nowhere(flow, at, end, chain, facts), known=Known.STATUS)


def _leading_nowhere(flow: Dataflow, at: int, end: int, chain: tuple[str, ...], facts: Sequence[str]) -> Finding:
    # Make the finding at the statement that received the last recorded value and passed nothing on; without such a
    # statement, or if not every name was selected there, at the line of that value.
    entry, last = flow.entries[at], flow.entries[end]
    if _is_partial(flow, end):
        return about(flow, "unknown.selection", entry, last.source, chain=chain, facts=facts)
    name, is_held, _ = own_name(last.name).partition(".")
    reading = _reading(flow, end)
    if reading is None:
        return about(flow, "unused", entry, last.source, chain=chain, facts=facts)
    cause = "unused.held" if is_held else "unused.passed"
    return about(
        flow,
        cause,
        entry,
        reading,
        chain=chain,
        facts=facts,
        last=repr(last.name),
        text=f"`{uncommented(reading)}`",
        plain=name,
    )


def _loaded(flow: Dataflow, at: int, after: After) -> Iterator[Finding]:
    # Yield the finding at the line that loads the value, or a value computed from it, into a module.
    for each in after:
        found = list(loaded(flow, each))
        if found:
            yield replace(found[0], chain=flow.chain(after, each))
            return


def _ends(flow: Dataflow, at: int, after: After) -> list[str]:
    # Return facts about where the computation from a value ends.
    ends = [each for each in after if each != at and not flow.consumers[each]]
    if not ends:
        nothing = say("nothing_from_it", value=repr(flow.entries[at].name))
        return [nothing] if flow.entries[at].source is not None else [nothing, say("callers")]
    # an output is not a dead end, even if nothing uses it further
    ends = [each for each in ends if each not in flow.record.outputs]
    return [say("ends_at", at=listed([named(flow.entries[each]) for each in ends], 3))] if ends else []


def _replaced(flow: Dataflow) -> list[str]:
    # Return a fact with the values that ``replace=`` supplied: they may replace values computed from this one.
    names = [repr(entry.name) for entry in flow.entries if entry.replaced]
    return [say("replaced_values", names=listed(names, 3))] if names else []


def _last(flow: Dataflow, after: After) -> int:
    ends = [each for each in after if not flow.consumers[each]]
    return next((each for each in ends if each not in flow.record.outputs), next(iter(ends or after)))


EXPLANATIONS: Sequence[Callable[[Dataflow, int, After], Iterable[Finding]]] = (
    _cut,
    _in_graph,
    _assigned,
    _differentiated,
    _not_run,
    _not_taken,
    _written_since,
    _made_again,
    _out_of_sight,
    _as_others,
    _other_call,
    _left_out,
    _loaded,
    _called,
    _cut_before,
    _unused,
)
