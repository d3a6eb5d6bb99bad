"""Makes the record of a run: its schema, filled with values and gradients."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from backprobe.backends.facts import NOTHING_KNOWN, Backward, Description, Outcome, OwnPass
from backprobe.backends.outcomes import gradients, unusual
from backprobe.backends.protocol import Backend
from backprobe.cuts.histories import histories
from backprobe.cuts.missing_edges import causes, places
from backprobe.record.entries import Entry, GradStatus, Record
from backprobe.record.held import Lost, plain_text
from backprobe.record.passes import Pass
from backprobe.record.reasons import Note, Reason
from backprobe.record.several import joined
from backprobe.record.stamp import Stamp, stamp
from backprobe.tracing.assemble import Assembler
from backprobe.tracing.module_code import NO_CODE, ModuleCode, with_uses
from backprobe.tracing.none_values import why_none
from backprobe.tracing.schema import Schema, Template
from backprobe.tracing.trace import Trace


@dataclass(eq=False)
class FinishedRun:
    """A finished run: its schema and its data. The record is created on demand."""

    schema: Schema
    backend: Backend
    passes: Sequence[Backward]
    """The results of backward: one for each output, or for each backward pass that the program itself ran. Their
    positions are those of the schema's captures.
    """

    plain: Sequence[Any]
    notes: tuple[Note, ...]
    stamp: Stamp
    described: Mapping[int, Description]
    """Descriptions made before, by position of the capture: of tensors that no longer have a value, or of all tensors
    if the program may still change them.
    """

    code: ModuleCode = NO_CODE
    """Code of the program, which is read to explain missing gradients."""

    originals: Sequence[Any] = ()
    """The original values of those that were replaced."""

    asked: Sequence[str] = ()
    """The keys under which several outputs were requested; empty for a single output."""

    @cached_property
    def keys(self) -> Sequence[str]:
        """The keys of several outputs; empty for a single one. If the program itself ran backward several times, the
        keys are the names of the values from which it did.
        """
        own = [one.own for one in self.passes]
        if self.asked or len(own) < 2:
            return self.asked
        names = [self._name_of(one) for one in own if one is not None]
        return [
            name if not (before := names[:at].count(name)) else f"{name}, pass {before + 1}"
            for at, name in enumerate(names)
        ]

    def _name_of(self, own: OwnPass) -> str:
        names = [self.schema.names.of_entries[at][0] for at in self._outputs(own)]
        return " + ".join(names) or ("backward()" if own.adds_up else "grad()")

    @cached_property
    def default(self) -> Backward | None:
        """The pass whose gradients are shown if there are several outputs and none was chosen: the first whose
        gradients the program added up in the leaves. None if there is no such pass.
        """
        return next((one for one in self.passes if one.own is not None and one.own.adds_up), None)

    def _outputs(self, own: OwnPass) -> list[int]:
        # Return the positions of the entries at which one of the program's own passes started.
        captured = self.schema.captured
        return [captured[at] for at in own.begun_at]

    def __len__(self) -> int:
        return len(self.schema.templates)

    def grads(self) -> dict[str, Any]:
        """Return the gradients that exist, by printed name, in the order of execution.

        Of several passes, they are those of ``default``, or of the first pass if there is no default.
        """
        names = self.schema.names.of_entries
        passed = self.passes[0] if len(self.passes) == 1 else self.default or self.passes[0]
        captured = zip(self.schema.captured, gradients(passed.outcomes), strict=True)
        return {names[entry][0]: gradient for entry, (there, gradient) in captured if there}

    def record(self, looked_at: Callable[[Record], Record] = lambda record: record) -> Record:
        """Return the run as a record. With several passes, ``looked_at`` is applied to the record of each before they
        are joined.
        """
        outputs = self.schema.output_entries
        if not self.keys:
            return replace(looked_at(self._of_pass(self.passes[0], outputs)), passes=self._own())
        each = [*zip(self.keys, self.passes, strict=True)]
        begun = [
            outputs[at : at + 1] if one.own is None else self._outputs(one.own) for at, (_, one) in enumerate(each)
        ]
        records = {key: looked_at(self._of_pass(one, at)) for (key, one), at in zip(each, begun, strict=True)}
        default = next((key for key, one in each if one is self.default), None)
        return replace(joined(records, default), passes=self._own())

    def _own(self) -> tuple[Pass, ...]:
        # Return the program's own passes, described with the names in the record.
        captured, names = self.schema.captured, self.schema.names.of_entries
        found = []
        for at, passed in enumerate(self.passes):
            own = passed.own
            key = "" if own is None else self.keys[at] if self.keys else self._name_of(own)
            for called, source, limits, has_cotangents, asked in () if own is None else own.calls:
                inputs = tuple([names[captured[one]][0] for one in limits])
                found.append(Pass(key, called, source, inputs, has_cotangents, asked))
        return tuple(found)

    def _of_pass(self, passed: Backward, outputs: Sequence[int]) -> Record:
        schema = self.schema
        assembler = Assembler(schema.names, schema.captured, self.backend.arrays.version)
        outcomes = iter(enumerate(passed.outcomes))
        entries = [
            self._entry(assembler, at, template, *(next(outcomes) if template.number is not None else (-1, None)))
            for at, template in enumerate(schema.templates)
        ]
        not_replaced = [
            Note("no_gradient_to_replace", {"status": str(entry.status)}, entry.name)
            for entry, template in zip(entries, schema.templates, strict=True)
            if template.replaced_grad and not entry.replaced_grad
        ]
        record = assembler.record(
            entries,
            passed,
            backend=self.backend.name,
            framework=self.backend.name,
            outputs=outputs,
            unseen=[name for name in schema.seen if name not in schema.names.positions],
            notes=[*self.notes, *not_replaced],
            stamp=self.stamp,
        )
        return with_uses(_with_causes(record.with_entries(histories(record))), self.code)

    def _entry(self, assembler: Assembler, at: int, template: Template, capture: int, outcome: Outcome | None) -> Entry:
        # Return an entry. ``outcome`` is None for a value that was not captured, such as a plain number.
        described = NOTHING_KNOWN
        if outcome is None:
            outcome = self._uncaptured(at, template)
        else:
            known = self.described.get(capture)
            described = self.backend.arrays.describe(outcome.value) if known is None else known
            writer = None if template.number is None else self.schema.writers.get(template.number)
            if outcome.status is GradStatus.OPAQUE and writer is not None:
                outcome = replace(outcome, cause=writer)
        return assembler.entry(
            at,
            outcome,
            described=described,
            source=template.source,
            op=template.op,
            reads=template.reads,
            indirect=template.indirect,
            original=None if template.original_at is None else (self.originals[template.original_at],),
            replaced_grad=template.replaced_grad and outcome.status is GradStatus.OK,
        )

    def _uncaptured(self, at: int, template: Template) -> Outcome:
        if template.absent is not None:
            return Outcome(*template.absent, None)
        value = None if template.plain_at is None else self.plain[template.plain_at]
        if value is None:
            name = self.schema.names.of_entries[at][0]
            return Outcome(GradStatus.NOT_TENSOR, why_none(name, template.source, bool(template.reads)), None)
        if isinstance(value, Lost):
            return Outcome(GradStatus.NOT_TENSOR, value.why, value)
        kind = f"the Python number {plain_text(value)}"
        return Outcome(GradStatus.NOT_TENSOR, Reason("not_tensor", {"kind": kind}), value)


def over(
    trace: Trace,
    backend: Backend,
    schema: Schema,
    passes: Sequence[Backward],
    *,
    live: bool = False,
    code: ModuleCode = NO_CODE,
    keys: Sequence[str] = (),
) -> FinishedRun:
    """Return the current state of a trace as a finished run. ``passes`` are the results of backward for the captures.

    With ``live``, the values are the program's own tensors, which the program may change later. ``code`` is the code of
    a model. ``keys`` are the keys of several outputs.
    """
    arrays, tensors, passed = backend.arrays, trace.versions.tensors, passes[0]  # all passes have the same values
    described = {
        at: arrays.describe(outcome.value if arrays.is_tensor(outcome.value) else tensors[schema.numbers[at]])
        for at, outcome in (enumerate(passed.outcomes) if live else unusual(passed.outcomes))
        if live or not arrays.is_tensor(outcome.value)
    }
    notes = tuple(trace.notes | dict.fromkeys(schema.notes))
    originals = [] if trace.replacing is None else [kept() for kept in trace.replacing.originals]
    return FinishedRun(schema, backend, passes, list(trace.log.plain), notes, stamp(), described, code, originals, keys)


def _with_causes(record: Record) -> Record:
    # Return the record. A value without a path to the output gets the line that disconnected it from the output, and a
    # value that a statement of several lines cut off gets the line within the statement, if these lines are found.
    lost = {at for at, entry in enumerate(record.entries) if entry.status is GradStatus.NOT_CONNECTED}
    found = places(record)
    if lost and any(_may_cut(entry, lost) for entry in record.entries):
        found |= causes(record)
    return record.with_entries({at: replace(record.entries[at], cause=line) for at, line in found.items()})


def _may_cut(entry: Entry, lost: Set[int]) -> bool:
    # May this entry be the reason why a gradient is missing? Most recordings have no such entry, and are not searched
    # further.
    #
    # The entry may be the reason if it mentions a value without a gradient to which none of its own edges leads, if it
    # has a gradient and backward passed nothing along one of its edges, or if the backend knows the line.
    edges = {edge.at for edge in entry.inputs}
    if not lost.isdisjoint(edges) and entry.status is GradStatus.OK:
        return True
    mentioned = {read.at for read in entry.reads} | {way.at for way in entry.indirect}
    return entry.cause is not None or not (mentioned & lost <= edges)
