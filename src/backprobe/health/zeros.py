"""Gradients and local derivatives that are all zero: where they begin, the nearest to the output first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from backprobe.findings.report import Finding
from backprobe.health.precision import is_flushed
from backprobe.health.record_arrays import RecordArrays, listed

ZERO = "judged zero: every number of the gradient is exactly 0, whatever the scale"
DERIVATIVE = "judged zero: every number of the local partial is exactly 0"


def check(patient: RecordArrays) -> Iterator[Finding]:
    """Gradients that are zero though one that they come from is not, and recorded partials that are."""
    zero = {at for at in range(len(patient.entries)) if (g := patient.grad(at)) is not None and not g.any()}
    for at in reversed(range(len(patient.entries))):
        entry = patient.entries[at]
        consumers = [one for one in patient.consumers.get(at, ()) if patient.grad(one) is not None]
        if at in zero and not is_flushed(patient, at) and (not consumers or not zero.issuperset(consumers)):
            behind = _behind(patient, at, zero)
            facts = [ZERO]
            if consumers:
                facts.append(f"not so the gradient of {_names(patient, consumers)}")
            if behind:
                facts.append(f"{_more(len(behind))} 0 because of it: {_names(patient, behind)}")
            source = patient.entries[consumers[0]].source if consumers else entry.source
            yield Finding(
                "zero_gradient", entry.name, f"the gradient of {entry.name!r} is all zero", source, tuple(facts)
            )
    for entry in patient.entries:
        for edge in entry.inputs:
            numbers = None if edge.partial is None else patient.arrays.numbers(edge.partial)
            if numbers is not None and numbers.size and not numbers.any():
                headline = f"the derivative of {entry.name!r} towards {edge.name!r} is all zero"
                yield Finding("zero_derivative", entry.name, headline, entry.source, (DERIVATIVE,))


def _more(count: int) -> str:
    return "1 more gradient is" if count == 1 else f"{count} more gradients are"


def _names(patient: RecordArrays, places: Sequence[int]) -> str:
    return listed([patient.entries[at].name for at in places])


def _behind(patient: RecordArrays, at: int, zero: set[int]) -> list[int]:
    """The other zero gradients that come from one."""
    found: dict[int, None] = {}
    pending = [at]
    while pending:
        for edge in patient.entries[pending.pop()].inputs:
            source = patient.positions.get(edge.name)
            if source in zero and source not in found:
                found[source] = None
                pending.append(source)
    return list(found)
