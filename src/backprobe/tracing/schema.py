"""A schema has the names, lines and mentions of a program's values. It is reused for later runs with equal logs.

Two runs with equal logs have bound the same names at the same lines, to values captured in the same order. A schema is
the reader's result for such a log. It holds no values and no captures, only their numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import lru_cache
from typing import Any

from backprobe.record.entries import GradStatus
from backprobe.record.inputs import IndirectInput, Read
from backprobe.record.patterns import Pattern, Selection
from backprobe.record.reasons import Note, Reason
from backprobe.record.source import Source
from backprobe.source.sites import Site
from backprobe.tracing.assemble import EntryNames
from backprobe.tracing.plan import Plan
from backprobe.tracing.printed_names import full, names_of
from backprobe.tracing.reader import Reader
from backprobe.tracing.values import ScopeId, Value

MOST_ITEMS = 200_000  # in all logs of one selection; the log of a very long loop is hardly ever repeated
MOST = 16  # schemas of one selection; a program has one for each path through its code


@dataclass(frozen=True, eq=False, slots=True)
class Template:
    """Facts about one entry that come from the program's text and names."""

    number: int | None  # the number of the entry's capture, if it has one
    plain_at: int | None  # the entry's index among the plain numbers of the log, if it is one of them
    absent: tuple[GradStatus, Reason] | None
    source: Source | None
    op: str
    reads: tuple[Read, ...]
    indirect: tuple[IndirectInput, ...]
    original_at: int | None = None  # for a replacement: the index of the original value
    replaced_grad: bool = False


@dataclass(frozen=True, eq=False)
class Schema:
    """The reader's result for one log."""

    events: Sequence[Any]
    outputs: tuple[int, ...]
    """The numbers of the outputs."""

    output_entries: tuple[int, ...]
    """The positions of the entries of the outputs."""

    templates: tuple[Template, ...]
    names: EntryNames
    numbers: tuple[int, ...]
    """The numbers of the captures that have entries, in the order of the entries. Some entries have no capture."""

    captured: tuple[int, ...]
    """The positions of the entries that have a capture."""

    around: Mapping[int, tuple[Sequence[int], bool]]
    """For each capture, the captures that its statement mentions: see ``Reader.around``."""

    writers: Mapping[int, Source]
    """For each capture with an unobserved write, the line that wrote to it."""

    seen: tuple[str, ...]
    """Names that the program gave to values that were not selected."""

    notes: tuple[Note, ...]
    missed: list[list[Pattern]] = field(default_factory=list, repr=False)

    def unmatched(self, selection: Selection) -> list[Pattern]:
        """Return the patterns of a selection that match no name in the program."""
        if not self.missed:
            self.missed.append(selection.unmatched([*self.names.positions, *self.seen]))
        return self.missed[0]


compare: Callable[[Schema, Schema], None] | None = None
"""Set by tests. It is called with a reused schema, and the schema that the reader makes of the same log now."""


def find(plan: Plan, events: Sequence[Any], outputs: Collection[int]) -> Schema | None:
    """Return the schema of a log if an equal log was read before; otherwise None."""
    for known in plan.schemas:
        if known.events == events and known.outputs == tuple(outputs):
            if known is not plan.schemas[0]:
                keep(plan, known)
            found: Schema = known
            return found
    return None


def keep(plan: Plan, schema: Schema) -> None:
    """Store a schema for later runs with this selection, unless its log is too long. Older ones may be dropped.

    Other threads may do so at the same time.
    """
    items, kept = 0, []
    for known in [schema, *(known for known in plan.schemas if known is not schema)][:MOST]:
        items += len(known.events)
        if items <= MOST_ITEMS:
            kept.append(known)
    plan.schemas = kept


def kept(reader: Reader, selection: Selection, outputs: Collection[Value]) -> list[Value]:
    """Return the values that get an entry: those with a selected name, and the outputs."""
    wanted, made = selection.wants, reader.naming.made
    for value in made:
        value.fulls = [full(name) for name in value.names]
    return [value for value in made if value in outputs or any(map(wanted, value.fulls))]


def schema_of(
    reader: Reader, selection: Selection, events: Sequence[Any], numbers: Collection[int], more: Sequence[Value] = ()
) -> Schema:
    """Return the schema for the events read so far. ``numbers`` are the numbers of outputs, ``more`` are further
    outputs.
    """
    outputs = [reader.naming.by_number[number] for number in numbers] + list(more)
    values = kept(reader, selection, outputs)
    names = names_of(reader, values)
    position = {value: at for at, value in enumerate(values)}
    first = [own[0] for own in names.of_entries]
    return Schema(
        events,
        tuple(numbers),
        tuple([position[output] for output in outputs]),
        tuple([_template(value, position, first) for value in values]),
        names,
        tuple([value.number for value in values if value.number is not None]),
        tuple([at for at, value in enumerate(values) if value.number is not None]),
        {value.number: value.around for value in reader.naming.made if value.around and value.number is not None},
        {number: line(*writer) for number, writer in reader.writers.items()},
        tuple(reader.naming.seen),
        tuple(reader.naming.notes),
    )


def _template(value: Value, position: Mapping[Value, int], first: Sequence[str]) -> Template:
    scope, site, source = value.scope, value.site, None
    if site.line:
        source = _source(scope.file, site.line, site.text, value.expression, value.calls, site.below)
    reads = [Read(spelled, at, name=first[at]) for spelled, one in value.reads if (at := position.get(one)) is not None]
    indirect = [
        IndirectInput(one.spelled, at, through, line(one.scope, one.site), name=first[at])
        for through, one in value.passages
        if (at := position.get(one.value)) is not None
    ]
    return Template(
        value.number,
        value.plain_at,
        value.absent,
        source,
        site.op,
        tuple(reads),
        tuple(indirect),
        value.original_at,
        value.replaced_grad,
    )


_source = lru_cache(16384)(Source)  # cached, because programs run the same lines repeatedly


def line(scope: ScopeId, site: Site) -> Source:
    """Return the source line of a statement, without the list of its calls."""
    return _source(scope.file, site.line, site.text, site.origin.expression, (), site.below)


def differences(known: Schema, made: Schema) -> list[str]:
    """Return the differences between two schemas of the same log. If there are any, a wrong schema was reused."""
    found = [
        f"{one.name}: {getattr(known, one.name)!r} != {getattr(made, one.name)!r}"
        for one in fields(Schema)
        if one.name not in ("events", "templates", "missed") and getattr(known, one.name) != getattr(made, one.name)
    ]
    for at, (old, new) in enumerate(zip(known.templates, made.templates, strict=False)):
        found += [
            f"entry {at}, {one.name}: {getattr(old, one.name)!r} != {getattr(new, one.name)!r}"
            for one in fields(Template)
            if getattr(old, one.name) != getattr(new, one.name)
        ]
    return found if len(known.templates) == len(made.templates) else [*found, "other entries"]
