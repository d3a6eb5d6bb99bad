"""The record of a traced run: names, lines and inputs of its values, and the lines that disconnect them."""

from __future__ import annotations

from collections.abc import Collection, Sequence, Set
from dataclasses import replace
from functools import lru_cache
from typing import Any

from backprobe.backends.facts import NOTHING_KNOWN, Backward, Outcome
from backprobe.backends.protocol import Backend
from backprobe.cuts.missing_edges import causes, places
from backprobe.record.entries import Entry, GradStatus, Record, plain_text
from backprobe.record.inputs import IndirectInput, Read
from backprobe.record.reasons import Reason
from backprobe.record.source import Source
from backprobe.source.sites import Site
from backprobe.tracing.assemble import Assembler
from backprobe.tracing.printed_names import full, names_of
from backprobe.tracing.trace import Trace
from backprobe.tracing.values import Carried, ScopeId, Value

NONE = Outcome(GradStatus.NOT_TENSOR, Reason("not_tensor", {"kind": "None"}), None)


def kept(trace: Trace, outputs: Collection[int]) -> list[Value]:
    """The values that get an entry: those with a name that was selected, and the outputs, by their numbers."""
    wanted, made = trace.selection.wants, trace.read().naming.made
    for value in made:
        value.fulls = [full(name) for name in value.names]
    return [value for value in made if value.number in outputs or any(map(wanted, value.fulls))]


def captures_of(trace: Trace, values: Sequence[Value]) -> list[Any]:
    """What the tape has captured of these values; nothing of a plain number."""
    return [trace.versions.captures[value.number] for value in values if value.number is not None]


def transcribe(
    trace: Trace, backend: Backend, values: Sequence[Value], passed: Backward, outputs: Sequence[int]
) -> Record:  # fmt: skip
    """The record of one run's values; ``passed`` refers to those that were captured, by position."""
    reader = trace.read()
    captured = [at for at, value in enumerate(values) if value.number is not None]
    outcomes = dict(zip(captured, passed.outcomes, strict=True))
    names = names_of(reader, values)
    assembler = Assembler(names, captured)
    transcript = _Transcript(trace, backend, values, assembler)
    record = assembler.record(
        [transcript.entry(at, value, outcomes.get(at)) for at, value in enumerate(values)],
        passed,
        backend=backend.name,
        framework=backend.name,
        outputs=[transcript.position[reader.naming.by_number[output]] for output in outputs],
        unseen=[name for name in reader.naming.seen if name not in names.positions],
        notes=tuple(trace.notes | reader.naming.notes),
    )
    return _with_causes(record)


def _with_causes(record: Record) -> Record:
    """The record, with the line that disconnected each value without a path to the output."""
    lost = {at for at, entry in enumerate(record.entries) if entry.status is GradStatus.NOT_CONNECTED}
    found = places(record)
    if lost and any(_may_cut(entry, lost) for entry in record.entries):
        found |= causes(record)
    if not found:
        return record
    entries = [replace(entry, cause=found[at]) if at in found else entry for at, entry in enumerate(record.entries)]
    return replace(record, entries=tuple(entries))


def _may_cut(entry: Entry, lost: Set[int]) -> bool:
    """May a missing gradient be cut off here? Most recordings have no such entry, and are not searched further.

    It may where a value is mentioned without an edge to it, where backward brought nothing along an edge, and where
    the backend knows the line itself.
    """
    edges = {edge.at for edge in entry.inputs}
    if not lost.isdisjoint(edges) and entry.status is GradStatus.OK:
        return True
    mentioned = {read.at for read in entry.reads} | {way.at for way in entry.indirect}
    return entry.cause is not None or not (mentioned & lost <= edges)


class _Transcript:
    """Entries of a traced run: the lines of its values, and what their expressions mention."""

    def __init__(self, trace: Trace, backend: Backend, values: Sequence[Value], assembler: Assembler) -> None:
        self.trace, self.arrays, self.assembler = trace, backend.arrays, assembler
        self.position = {value: at for at, value in enumerate(values)}

    def entry(self, at: int, value: Value, outcome: Outcome | None) -> Entry:
        """The entry of a value; ``outcome`` is None for one that was not captured, such as a plain number."""
        scope, site, source = value.scope, value.site, None
        if site.line:
            source = _source(scope.file, site.line, site.text, value.expression, value.calls, site.below)
        described = NOTHING_KNOWN
        if outcome is None:
            outcome = _uncaptured(value)
        elif value.number is not None:
            is_there = self.arrays.is_tensor(outcome.value)
            tensor = outcome.value if is_there else self.trace.versions.tensors[value.number]
            described = self.arrays.describe(tensor)
        if outcome.status is GradStatus.OPAQUE:
            outcome = self._with_writer(value, outcome)
        return self.assembler.entry(
            at,
            outcome,
            described=described,
            source=source,
            op=site.op,
            reads=self._reads(value.reads) if value.reads else (),
            indirect=self._indirect(value.passages) if value.passages else (),
        )

    def _with_writer(self, value: Value, outcome: Outcome) -> Outcome:
        """The outcome of a value that unseen code wrote to, with that line as the cause where it is known."""
        writer = None if value.number is None else self.trace.reader.writers.get(value.number)
        return outcome if writer is None else replace(outcome, cause=_line(*writer))

    def _reads(self, reads: Sequence[tuple[str, Value]]) -> tuple[Read, ...]:
        first, position = self.assembler.first, self.position.get
        return tuple([
            Read(spelled, at, name=first[at]) for spelled, value in reads if (at := position(value)) is not None
        ])  # fmt: skip

    def _indirect(self, passages: Sequence[tuple[str, Carried]]) -> tuple[IndirectInput, ...]:
        first, position = self.assembler.first, self.position.get
        return tuple([
            IndirectInput(one.spelled, at, through, _line(one.scope, one.site), name=first[at])
            for through, one in passages if (at := position(one.value)) is not None
        ])  # fmt: skip


_source = lru_cache(16384)(Source)  # programs run the same lines at every step


def _line(scope: ScopeId, site: Site) -> Source:
    """The line of a statement, without the functions that it called."""
    return _source(scope.file, site.line, site.text, site.origin.expression, (), site.below)


def _uncaptured(value: Value) -> Outcome:
    if value.absent is not None:
        return Outcome(*value.absent, None)
    if value.plain is None:
        return NONE
    kind = f"the Python number {plain_text(value.plain)}"
    return Outcome(GradStatus.NOT_TENSOR, Reason("not_tensor", {"kind": kind}), value.plain)
