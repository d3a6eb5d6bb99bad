"""From a trace and what backward gave to the record: full names, printed names, entries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from functools import lru_cache

from backprobe.backends.facts import NOTHING_KNOWN, Backward, Link, MadeAt, NotGiven, Outcome, Sums
from backprobe.backends.protocol import Backend
from backprobe.cuts.cuts import causes, places
from backprobe.record.entries import Entry, GradStatus, NoneGiven, Record, plain_text
from backprobe.record.inputs import Edge, IndirectInput, PathSums, Read
from backprobe.record.nonfinite import BackwardOp, Finiteness, Update
from backprobe.record.reasons import Note, Reason
from backprobe.record.source import Source
from backprobe.record.stamp import stamp
from backprobe.source.sites import Site
from backprobe.tracing.provenance import Carried
from backprobe.tracing.scope import NamedAs, Scope, Value
from backprobe.tracing.trace import Trace


def transcribe(
    trace: Trace, backend: Backend, values: Sequence[Value], passed: Backward, outputs: Sequence[Value]
) -> Record:  # fmt: skip
    """The record of one run's values; what backward gave speaks by position of those that were captured."""
    captured = [value for value in values if value.capture is not None]
    found = dict(zip(captured, passed.outcomes, strict=True))
    position = {value: at for at, value in enumerate(values)}
    printer = _Printer(trace, values)
    names = {name: at for at, value in enumerate(values) for name in value.fulls}
    written = {name: printer.write(of) for value in values for name, of in zip(value.fulls, value.names, strict=True)}
    chosen = [_outermost_first(value.fulls, written) for value in values]
    printed = {value: own[0] for value, own in zip(values, chosen, strict=True)}
    writer = _Writer(trace, backend, printed, [printed[value] for value in captured])
    entries = tuple([writer.entry(value, own, found.get(value)) for value, own in zip(values, chosen, strict=True)])
    backward = tuple([position[captured[at]] for at in passed.order])
    unseen = tuple([name for name in trace.seen if name not in names])
    notes = (*trace.notes, *(Note(one.code, one.fields, writer.captured[at]) for at, one in passed.notes))
    return with_causes(Record(
        backend.name, entries, names, written, backward, tuple([position[output] for output in outputs]), stamp(),
        unseen, notes, _path_sums(passed.sums, writer.captured), passed.scales, framework=backend.name,
        updates=tuple([Update(*one[:-1], None if one.after is None else writer.captured[one.after])
                       for one in passed.updates]),
        none_given=_none_given(passed.none_given, writer.captured),
    ))  # fmt: skip


def with_causes(record: Record) -> Record:
    """The record, with the line that cut the way from each value that no path leads from."""
    lost = {entry.name for entry in record.entries if entry.status is GradStatus.NOT_CONNECTED}
    found = places(record)
    if lost and any(_may_cut(entry, lost) for entry in record.entries):
        found |= causes(record)
    if not found:
        return record
    entries = [replace(entry, cause=found[at]) if at in found else entry for at, entry in enumerate(record.entries)]
    return replace(record, entries=tuple(entries))


def _may_cut(entry: Entry, lost: Set[str]) -> bool:
    """May the way of a lost gradient end here? Most recordings have no such entry, and are not looked into further.

    So it may where a value is mentioned and no edge leads to it, where backward brought nothing along an edge, and
    where a backend knows the line itself.
    """
    edges = {edge.name for edge in entry.inputs}
    if not lost.isdisjoint(edges) and entry.status is GradStatus.OK:
        return True
    mentioned = {read.name for read in entry.reads} | {way.name for way in entry.indirect}
    return entry.cause is not None or not (mentioned & lost <= edges)


def kept(trace: Trace, outputs: Sequence[Value]) -> list[Value]:
    """The values that get an entry: those with a name that was selected, and the outputs."""
    wanted = trace.selection.wants
    for value in trace.values:
        value.fulls = [full(name) for name in value.names]
    return [value for value in trace.values if value in outputs or any(map(wanted, value.fulls))]


def _path_sums(sums: Sums | None, printed: Sequence[str]) -> PathSums | None:
    if sums is None:
        return None
    worst = None if sums.worst is None else printed[sums.worst]
    return PathSums(sums.judged, sums.difference, worst, sums.agree, tuple(printed[at] for at in sums.unjudged))


def _none_given(found: Sequence[NotGiven], printed: Sequence[str]) -> tuple[NoneGiven, ...]:
    return tuple([
        NoneGiven(one.label if one.position is None else printed[one.position], one.source, one.why,
                  tuple([printed[at] for at in one.outside]))
        for one in found
    ])  # fmt: skip


def _outermost_first(fulls: Sequence[str], written: Mapping[str, str]) -> list[str]:
    """The printed names of a value, the one to print first: a caller's ``z`` before its callee's ``/func:z``."""
    if len(fulls) == 1:
        return [written[fulls[0]]]
    return list(dict.fromkeys(written[name] for name in sorted(fulls, key=lambda name: name.count("/"))))


def full(name: NamedAs) -> str:
    """The full name: every count written."""
    scope, local, count, leaf = name
    return local if scope is None else f"{scope.full}:{local}#{count}{leaf}"


class _Printer:
    """Printed names: a count only where it tells several apart, the shorthand ``u`` only where it has one reading."""

    def __init__(self, trace: Trace, kept: Sequence[Value]) -> None:
        self.trace = trace
        self.scopes: dict[Scope, str] = {}
        self.paths = {name[1] for value in kept for name in value.names if name[0] is None} | set(trace.entered)

    def write(self, name: NamedAs) -> str:
        scope, local, count, leaf = name
        if scope is None:
            return local
        place = self.scopes.get(scope)
        if place is None:
            place = self.scopes[scope] = self._scope(scope)
        counted = f"{local}#{count}" if scope.counts.get(local, 1) > 1 else local
        if place and local == "return" and not leaf and "#" not in counted and not place.startswith("/"):
            return place  # a scope alone means what it returns
        bare = counted + leaf
        return f"{place}:{bare}" if place or bare in self.paths else bare

    def _scope(self, scope: Scope) -> str:
        if not scope.path:
            return ""
        above, siblings = "", self.trace.entered
        if scope.parent is not None:
            above, siblings = self._scope(scope.parent), scope.parent.entered
        return f"{above}{scope.path}" + (f"#{scope.count}" if siblings.get(scope.path, 1) > 1 else "")


_source = lru_cache(16384)(Source)  # programs come by the same lines at each step


class _Writer:
    """Writes the entries of one record, in which values are called by the names that are printed first."""

    def __init__(
        self, trace: Trace, backend: Backend, printed: Mapping[Value, str], captured: Sequence[str]
    ) -> None:  # fmt: skip
        self.trace, self.backend, self.printed, self.captured = trace, backend, printed, captured

    def entry(self, value: Value, written: Sequence[str], outcome: Outcome | None) -> Entry:
        scope, site, source = value.scope, value.site, None
        if scope is not None and site.line:
            source = _source(scope.file, site.line, site.text, value.expression, value.calls, site.below)
        reads = self._reads(value.reads) if value.reads else ()
        passages = self._passages(value.passages) if value.passages else ()
        if outcome is None:
            absent = value.absent or (GradStatus.NOT_TENSOR, Reason("not_tensor", {"kind": _kind(value.plain)}))
            return Entry(written[0], tuple(written[1:]), *absent, None, None, None, source, site.op, (),
                         reads, value.plain, None, (), passages)  # fmt: skip
        status, why, held, grad, links, axes, cause, made, is_leaf, leaves_reached = outcome
        described = NOTHING_KNOWN
        if value.tensor is not None:
            described = self.backend.describe(held if self.backend.is_tensor(held) else value.tensor)
        unseen_writer = self.trace.writers.get(id(value.capture))
        if unseen_writer is not None and status is GradStatus.OPAQUE:
            cause = _line(*unseen_writer)
        return Entry(
            written[0], tuple(written[1:]), status, why, *described, source, site.op, self._edges(links), reads,
            held, grad, axes, passages, cause, None if made is None else Finiteness(None, None, self._made(made)),
            is_leaf, leaves_reached,
        )  # fmt: skip

    def _edges(self, links: Sequence[Link]) -> tuple[Edge, ...]:
        return tuple([Edge(self.captured[link.position], link.partial, link.contribution) for link in links])

    def _reads(self, reads: Sequence[tuple[str, Value]]) -> tuple[Read, ...]:
        return tuple([Read(spelled, self.printed[read]) for spelled, read in reads if read in self.printed])

    def _passages(self, passages: Sequence[tuple[str, Carried]]) -> tuple[IndirectInput, ...]:
        return tuple([
            IndirectInput(one.spelled, self.printed[one.value], through, _line(one.scope, one.site))
            for through, one in passages if one.value in self.printed
        ])  # fmt: skip

    def _made(self, made: Sequence[MadeAt]) -> tuple[BackwardOp, ...]:
        return tuple([
            BackwardOp(one.operation, None if one.towards is None else self.captured[one.towards], one.given, one.made)
            for one in made
        ])  # fmt: skip


def _line(scope: Scope, site: Site) -> Source:
    """The line of a statement; a value that it made also has what it called."""
    return _source(scope.file, site.line, site.text, site.origin.expression, (), site.below)


def _kind(plain: object) -> str:
    return "None" if plain is None else f"the Python number {plain_text(plain)}"
