"""Several outputs in one record: joined from one record for each, and separated again, or summed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import count
from typing import Any, Protocol

from backprobe.record.entries import Differentiated, Entry, Gradient, GradStatus, Record
from backprobe.record.held import Lost
from backprobe.record.inputs import Edge, PathSums
from backprobe.record.nonfinite import Finiteness
from backprobe.record.reasons import Note, Reason

Weights = Mapping[str, float | None]
TOTAL = "total()"
"""The name of the sum. Its parentheses show that it is no name of the program."""


class Arithmetic(Protocol):
    """The operations on tensors that a sum of outputs needs."""

    def weighted(self, terms: Sequence[tuple[float | None, Any]]) -> Any:
        """The weighted sum of tensors; a weight of None means 1."""

    def inner(self, cotangent: Any, tensor: Any) -> Any:
        """The inner product of two tensors (its real part for complex ones), as a tensor of one number."""

    def one(self, like: Any) -> Any:
        """The number 1 as a tensor with the dtype and on the device of another."""

    def describe(self, tensor: Any) -> tuple[tuple[int, ...] | None, str | None, str | None]:
        """The shape, dtype and device of a tensor."""


def joined(records: Mapping[str, Record], default: str | None = None) -> Record:
    """One record of a run, from the records of its outputs: values, names and lines are the same in all of them.

    If there is a ``default`` output, the fields that differ are taken from it; the notes are those of all outputs.
    """
    first = next(iter(records.values()))
    every = zip(*(record.entries for record in records.values()), strict=True)
    own = {} if default is None else {part: getattr(records[default], part) for part in OF_OUTPUT}
    return replace(
        first,
        entries=tuple([_joined(dict(zip(records, entries, strict=True)), default) for entries in every]),
        default_output=default,
        notes=_all(records, "notes"),
        **{**OF_SEVERAL, "outputs": _all(records, "outputs"), **own},
        by_output={key: Differentiated(**_shared(Differentiated, one)) for key, one in records.items()},
    )


OF_SEVERAL: Mapping[str, Any] = {"backward": (), "path_sums": None, "used_at": ()}
OF_OUTPUT = ("backward", "outputs", "path_sums", "used_at", "scales", "updates", "none_given", "training")
"""The parts of a record that are taken from the default output."""


def _all(records: Mapping[str, Record], part: str) -> tuple[Any, ...]:
    # Return every item that one field has in any of the records, without repetitions.
    return tuple(dict.fromkeys(one for record in records.values() for one in getattr(record, part)))


def _joined(entries: Mapping[str, Entry], default: str | None) -> Entry:
    # One entry. Its status is that of the default output; without one, ``ok`` if any output has a gradient.
    if default is not None:
        of_each = {key: _gradient(one) for key, one in entries.items()}
        return replace(entries[default], by_output=of_each, default_output=default)
    shown = next((one for one in entries.values() if one.status is GradStatus.OK), next(iter(entries.values())))
    edges = {edge.at: replace(edge, contribution=None) for one in entries.values() for edge in one.inputs}
    finiteness = None if shown.finiteness is None else Finiteness(shown.finiteness.value, None)
    return replace(
        shown,
        inputs=tuple([edges[at] for at in sorted(edges)]),
        held_grad=None,
        finiteness=finiteness,
        by_output={key: _gradient(one) for key, one in entries.items()},
        leaves_reached=any(one.leaves_reached for one in entries.values()),
    )


def _gradient(entry: Entry) -> Gradient:
    finiteness = entry.finiteness and replace(entry.finiteness, value=None)
    return Gradient(**{**_shared(Gradient, entry), "finiteness": finiteness})


def _shared(kind: type[Differentiated | Gradient], whole: Record | Entry) -> dict[str, Any]:
    # The fields of a record or entry of one output that are kept for each of several outputs.
    return {one.name: getattr(whole, one.name) for one in fields(kind)}


def of_output(record: Record, key: str) -> Record:
    """The record of one of several outputs."""
    if record.default_output not in (None, key):  # the record's own fields describe the default output
        record = replace(record, scales=(), none_given=(), training=None)
    return replace(
        record,
        entries=tuple([entry.of_output(key) for entry in record.entries]),
        by_output={},
        default_output=None,
        **vars(record.by_output[key]),
    )


def total(record: Record, weights: Weights, arithmetic: Arithmetic) -> Record:
    """The record of a weighted sum of outputs. By linearity, no backward pass is needed.

    The sum has an entry of its own, into which the outputs flow, unless an output has no gradient itself.
    """
    entries = [_summed(entry, weights, arithmetic) for entry in record.entries]
    parts = [record.by_output[key] for key in weights]
    there = [at for at, entry in enumerate(entries) if entry.status is GradStatus.OK]
    summed = replace(
        record,
        entries=tuple(entries),
        # in the order in which one pass from the sum would visit them: last made first
        backward=tuple(reversed(there)),
        outputs=tuple(dict.fromkeys(at for part in parts for at in part.outputs)),
        notes=(*dict.fromkeys(note for part in parts for note in part.notes), *_of_replaced(record, weights)),
        path_sums=_worst([part.path_sums for part in parts]),
        used_at=tuple(dict.fromkeys(one for part in parts for one in part.used_at)),
        by_output={},
        default_output=None,
    )
    terms = _terms(record, weights)
    return _with_total(summed, terms, arithmetic) if terms else summed


def _of_replaced(record: Record, weights: Weights) -> list[Note]:
    # The note on changed gradients: their sum over the outputs is not what the same change would make of the gradient
    # of the sum.
    is_one_alone = len(weights) == 1 and set(weights.values()) <= {None, 1.0}
    is_replaced = any(entry.replaced_grad for entry in record.entries)
    return [Note("sum_of_replaced")] if is_replaced and not is_one_alone else []


def _with_total(record: Record, terms: Sequence[_Term], arithmetic: Arithmetic) -> Record:
    # The record with the entry of the sum added as the output.
    at = len(record.entries)
    full = next(name for nth in count() if (name := f":{TOTAL}#{nth}") not in record.names)
    printed = TOTAL if full == f":{TOTAL}#0" else full
    entry = _total(terms, record.path_sums is not None, arithmetic, printed)
    return replace(
        record,
        entries=(*record.entries, entry),
        names={**record.names, full: at},
        printed={**record.printed, full: printed},
        backward=(at, *record.backward),
        outputs=(at,),
    )


def _summed(entry: Entry, weights: Weights, arithmetic: Arithmetic) -> Entry:
    # An entry with the weighted sum of the gradients of some outputs. If it has none of them, the entry of the first
    # output.
    found = [(weight, entry.of_output(key)) for key, weight in weights.items()]
    there = [(weight, one) for weight, one in found if one.status is GradStatus.OK]
    if not there:
        return found[0][1]
    shown = there[0][1]
    operations = [one.finiteness.made for _, one in there if one.finiteness is not None and one.finiteness.made]
    made = tuple(dict.fromkeys(operation for own in operations for operation in own))
    return replace(
        shown,
        held_grad=arithmetic.weighted([(weight, one.held_grad) for weight, one in there]),
        inputs=_summed_edges([(weight, edge) for weight, one in there for edge in one.inputs], arithmetic),
        finiteness=shown.finiteness and replace(shown.finiteness, made=made or shown.finiteness.made),
    )


def _summed_edges(edges: Sequence[tuple[float | None, Edge]], arithmetic: Arithmetic) -> tuple[Edge, ...]:
    # Edges with the contributions for the sum; local partials do not depend on the output.
    flows: dict[int, list[tuple[float | None, Any]]] = {}
    for weight, edge in edges:
        flows.setdefault(edge.at, []).extend([(weight, edge.contribution)] if edge.contribution is not None else [])
    known = {edge.at: edge for _, edge in reversed(edges)}
    return tuple(
        [replace(known[at], contribution=arithmetic.weighted(flows[at]) if flows[at] else None) for at in sorted(flows)]
    )


@dataclass(frozen=True)
class _Term:
    # One output in a sum: its position, its weight, and its entry in its own recording.
    at: int
    weight: float | None
    output: Entry

    @property
    def is_known(self) -> bool:
        return not isinstance(self.output.held, Lost)


def _terms(record: Record, weights: Weights) -> list[_Term]:
    # The outputs in a sum; empty if one of them has no gradient. The gradient of each output is its cotangent.
    found = [
        _Term(at, weight, record.entries[at].of_output(key))
        for key, weight in weights.items()
        for at in record.by_output[key].outputs
    ]
    return found if all(term.output.status is GradStatus.OK for term in found) else []


def _total(terms: Sequence[_Term], has_partials: bool, arithmetic: Arithmetic, name: str) -> Entry:
    # The entry of the sum: its value is the weighted sum of the inner products of each output with its cotangent.
    numbers = [
        (term.weight, arithmetic.inner(term.output.held_grad, term.output.held)) for term in terms if term.is_known
    ]
    value = arithmetic.weighted(numbers) if len(numbers) == len(terms) else Lost(Reason("term_lost"))
    one = arithmetic.one(terms[0].output.held_grad)
    _, dtype, device = arithmetic.describe(one)
    edges = []
    for at in dict.fromkeys(term.at for term in terms):
        own = [(term.weight, term.output.held_grad) for term in terms if term.at == at]
        flow = arithmetic.weighted(own) if has_partials else None
        edges.append(Edge(at, flow, flow, name=next(term.output.name for term in terms if term.at == at)))
    return Entry(
        name=name,
        aliases=(),
        status=GradStatus.OK,
        why=None,
        shape=(),
        dtype=dtype,
        device=device,
        source=None,
        op=TOTAL,
        inputs=tuple(edges),
        reads=(),
        held_value=value,
        held_grad=one,
    )


def _worst(sums: Sequence[PathSums | None]) -> PathSums | None:
    # The path sums of the weighted sum. If the path sums of each output agree, those of the weighted sum do as well.
    found = [one for one in sums if one is not None]
    if not found:
        return None
    worst = max(found, key=lambda one: one.difference)
    unjudged = {at: name for one in found for at, name in zip(one.unjudged_at, one.unjudged, strict=True)}
    return replace(
        worst,
        judged=max(one.judged for one in found),
        agree=all(one.agree for one in found),
        unjudged=tuple(unjudged.values()),
        unjudged_at=tuple(unjudged),
    )
