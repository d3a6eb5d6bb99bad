"""Why what keeps its history has no way to the output: it is cut off, computed once more, or not used there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from backprobe.cuts.cuts import Ways
from backprobe.cuts.lines import line_of
from backprobe.cuts.usage import has_part, unread
from backprobe.explain.cutting import cut_finding, through
from backprobe.explain.sentences import LISTED, finding_of, is_returned, made_at, outputs_of, with_fact
from backprobe.explain.without_history import GOES_ON, hidden_findings, scopes_of
from backprobe.findings.report import Finding
from backprobe.record.entries import LINES_OF_THEIR_OWN, Entry, GradStatus, Record
from backprobe.record.names import split, strip
from backprobe.record.reasons import WRITTEN_SINCE, Note

After = dict[int, int | None]
"""What a value flows into, see ``Ways.after``."""


def not_connected(ways: Ways, at: int) -> list[Finding]:
    """The first explanation that there is; the last one always is."""
    after = ways.after(at)
    return next(found for explain in EXPLANATIONS if (found := list(explain(ways, at, after))))


def _cut(ways: Ways, at: int, after: After) -> Iterator[Finding]:
    """Every cut on a way to an output."""
    return (cut_finding(ways, cut, through(ways, after, cut)) for cut in ways.cuts(at))


def _differentiated(ways: Ways, at: int, after: After) -> Iterator[Finding]:
    """The first line on the way to an output that goes on from the derivative of a value, as a gradient penalty."""
    first = next((ways.derived[each] for each in after if each in ways.derived), None)
    if first is None or first.target not in ways.leading:
        return
    entry, target = ways.entries[first.source], ways.entries[first.target]
    fields = {"value": repr(entry.name), "target": repr(target.name), "text": f"`{first.use.text}`"}
    facts = [f"no edge leads from {target.name!r} back to {entry.name!r}, and none needs to"]
    chain = (*ways.chain(after, first.source), target.name)
    line = first.line or target.source
    yield finding_of(ways, "differentiated", target.name, line, fields, facts=facts, chain=chain)


def _not_run(ways: Ways, at: int, after: After) -> Iterator[Finding]:
    """Is it a parameter of a module that did not run, or that lies in one?"""
    entry, above = ways.entries[at], ways.modules_above(at) if len(after) == 1 else ()
    idle = next((one for one in above if ways.entries[one].status is GradStatus.NOT_EXECUTED), None)
    if idle is not None:
        fields = {"value": repr(entry.name), "module": repr(ways.entries[idle].name)}
        yield replace(finding_of(ways, "module_not_run", entry.name, None, fields), kind="not_executed")


def _written_since(ways: Ways, at: int, after: After) -> Iterator[Finding]:
    """The output may be computed from a later version, as in the steps of training after the first."""
    entry = ways.entries[at]
    fields = {"value": repr(entry.name), "outputs": outputs_of(ways)}
    if entry.is_because(*WRITTEN_SINCE):
        yield finding_of(ways, "written_since", entry.name, entry.source, fields, facts=_ends(ways, at, after))


def _doubted(ways: Ways, at: int, after: After) -> Iterator[Finding]:
    """The first line on the way to an output whose result does not lead back, and that may have no use of the value."""
    first = next(iter(ways.doubted(at)), None)
    if first is None:
        return
    entry, target = ways.entries[first.source], ways.entries[first.target]
    fields = {"value": repr(entry.name), "target": repr(target.name)}
    facts = ["that part of the line may have no use of it, as an index has none"]
    chain = (*ways.chain(after, first.source), target.name)
    yield finding_of(ways, "unknown", target.name, first.place or target.source, fields, facts=facts, chain=chain)


def _left_out(ways: Ways, at: int, after: After) -> Iterator[Finding]:
    """A mention that the line may have left out, where nothing else is found."""
    cut = ways.left_out(at)
    if cut is not None:
        yield cut_finding(ways, cut, through(ways, after, cut))


def _out_of_sight(ways: Ways, at: int, after: After) -> list[Finding]:
    """Cuts where the way to the output is not seen to its end: of what leaves a function, and of a closure's names."""
    entries = ways.entries
    dead = [cut for cut in ways.among({*after}) if entries[cut.target].status in LINES_OF_THEIR_OWN]
    left = [cut for cut in dead if _leaves(ways, cut.target)]
    if left:
        return [cut_finding(ways, cut, through(ways, after, cut)) for cut in left]
    if _is_partial(ways, _last(ways, after)):
        found = [cut_finding(ways, cut, through(ways, after, cut)) for cut in dead]
        return [
            with_fact(finding, f"the way on from {finding.name!r} was not selected to its end") for finding in found
        ]
    return hidden_findings(ways, ways.leading, of=at)


def _as_others(ways: Ways, at: int, after: After) -> list[Finding]:
    """What cuts off others that the same line made, where a list passes on more values than are followed."""
    limits = passing_on_many(ways.record)
    first = ways.first_of_line.get(at) if limits else None
    if first is None or not (cuts := ways.cuts(first)):
        return []
    after = ways.after(first)  # on the way of that one
    facts = f"so it is of {ways.entries[first].name!r}, which the same line made; {limits[0]}"
    return [with_fact(cut_finding(ways, cut, through(ways, after, cut)), facts) for cut in cuts]


def passing_on_many(record: Record) -> list[Note]:
    """Where a list passed on more values than are followed: of what a line does to the others nothing is known."""
    return [note for note in record.notes if note.code == "passes_on_many"]


def _leaves(ways: Ways, at: int) -> bool:
    """Is it kept or given where others may take it: what is returned, attributes and items of objects?"""
    full = [strip(name) for name, position in ways.record.names.items() if position == at]
    return any(name.endswith(":return") or "." in name.rpartition(":")[2] or "[" in name for name in full)


def _is_partial(ways: Ways, at: int) -> bool:
    """Is there a name that was not selected, where a value has its own? The value may go into that."""
    if ways.entries[at].source is None:
        return False
    scopes = {split(strip(name))[0] for name, position in ways.record.names.items() if position == at}
    return any(split(name)[0] in scopes for name in ways.record.unseen)


def _made_again(ways: Ways, at: int, after: After) -> Iterator[Finding]:
    """Another line computes the very same expression once more, of the same values."""
    entry = ways.entries[at]
    text = entry.source.expression if entry.source is not None else ""
    if not text:
        return
    read = {read.spelled: read.name for read in entry.reads}
    for target in sorted(ways.leading):
        other = ways.entries[target]
        if target == at or other.source is None or not has_part(other.source.expression, text):
            continue
        is_same = scopes_of(ways, at) == scopes_of(ways, target) or not unread(text, frozenset(read))
        if is_same and {spelled: name for spelled, name in _reads(other) if spelled in read} == read:
            again = {"value": repr(entry.name), "text": f"`{text}`", "again": repr(other.name)}
            chain = (*(name for name in dict.fromkeys(read.values())), entry.name)
            facts = [made_at(entry), "each time that it runs, such an expression gives a tensor of its own"]
            line = line_of(other.source, text)
            yield finding_of(ways, "made_again", entry.name, line, again, chain=chain, facts=facts)
            return


def _reads(entry: Entry) -> Iterator[tuple[str, str]]:
    return ((read.spelled, read.name) for read in entry.reads)


def _other_call(ways: Ways, at: int, after: After) -> Iterator[Finding]:
    """Another entry of the same name, from another run of the same code, has a gradient."""
    entry = ways.entries[at]
    own = {strip(full) for full, position in ways.record.names.items() if position == at}
    others = {
        ways.entries[position].name: None for full, position in ways.record.names.items()
        if position != at and strip(full) in own and ways.entries[position].status is GradStatus.OK
    }  # fmt: skip
    if others:
        named = ", ".join(f"rec[{name!r}]" for name in list(others)[:LISTED])
        fields = {"value": repr(entry.name), "outputs": outputs_of(ways), "others": named}
        yield finding_of(ways, "other_call", entry.name, entry.source, fields, facts=_ends(ways, at, after))


def _unused(ways: Ways, at: int, after: After) -> Iterator[Finding]:
    """No recorded value leads on, as far as the selection lets see."""
    entry = ways.entries[at]
    fields = {"value": repr(entry.name), "outputs": outputs_of(ways)}
    end, facts = _last(ways, after), _ends(ways, at, after)
    chain, line = ways.chain(after, end) if end != at else (), ways.entries[end].source
    if end != at and is_returned(ways, end) and not any(entry.source for entry in ways.entries):
        kind, line, facts = "not_seen", None, [*facts, GOES_ON]
    else:
        kind = "not_selected" if _is_partial(ways, end) else "unused"
    found = finding_of(ways, kind, entry.name, line, fields, chain=chain, facts=facts)
    yield found if kind == "unused" else replace(found, kind="unknown")


def _ends(ways: Ways, at: int, after: After) -> list[str]:
    """Where what is computed from a value ends."""
    ends = [each for each in after if each != at and not ways.consumers.get(each)]
    if not ends:
        nothing = [f"no recorded value is computed from {ways.entries[at].name!r}"]
        return nothing if ways.entries[at].source is not None else [*nothing, GOES_ON]
    named = [made_at(ways.entries[each]) for each in ends[:LISTED]]
    more = [f"and {len(ends) - LISTED} more"] if len(ends) > LISTED else []
    return [f"what is computed from it ends there: {one}" for one in named] + more


def _last(ways: Ways, after: After) -> int:
    return next((each for each in after if not ways.consumers.get(each)), next(iter(after)))


EXPLANATIONS: Sequence[Callable[[Ways, int, After], Iterable[Finding]]] = (
    _cut, _differentiated, _not_run, _written_since, _made_again, _out_of_sight, _as_others, _other_call, _doubted,
    _left_out, _unused,
)  # fmt: skip
