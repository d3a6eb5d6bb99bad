"""Finds where gradients and local partials become zero everywhere; the place nearest to the output comes first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from backprobe.backends.zero_gradients import CODE as ALL_ZERO
from backprobe.findings.known import Known
from backprobe.findings.report import Finding
from backprobe.health.precision import is_flushed
from backprobe.health.record_arrays import RecordArrays
from backprobe.health.rightly_zero import rightly_zero
from backprobe.record.graph import reached
from backprobe.record.names import strip

ZERO = "zero means: every number of the gradient is exactly 0, whatever the scale"
DERIVATIVE = "zero means: every number of the local partial is exactly 0"
KNOWN = Known.GRADIENT_THERE | Known.MOMENTARY


def check(arrays: RecordArrays) -> Iterator[Finding]:
    """Report gradients that are zero although the gradient of a consumer is not, or that have no consumer with a
    gradient, and local partials that are zero. Gradients that are zero for a good reason get a remark instead.
    """
    for note in (one for one in arrays.record.notes if one.code == ALL_ZERO):
        line = next((arrays.entries[at].source for at in arrays.record.outputs), None)
        headline = f"{note.fields['gradients']} exactly 0"
        yield Finding("zero_gradient", "", headline, line, (ZERO, f"those of {note.fields['names']}"), known=KNOWN)
    yield from _gradients(arrays)
    yield from _partials(arrays)


def _gradients(arrays: RecordArrays) -> Iterator[Finding]:
    graph, calls = arrays.graph, _calls(arrays)
    zero = {at for at, grad in enumerate(arrays.grads) if grad is not None and not grad.any()}
    for at in sorted(zero, reverse=True):
        consumers = [one for one in graph.consumers[at] if arrays.grads[one] is not None]
        if is_flushed(arrays, at) or (consumers and zero.issuperset(consumers)):
            continue
        behind = reached([at], lambda one: zero.intersection(graph.inputs[one])) - {at}
        if all(_is_of_few_calls(calls[_call(arrays, one)], zero, {at, *behind}) for one in (at, *behind)):
            continue
        rightly = rightly_zero(arrays, at, consumers)
        if rightly:
            arrays.remarks.append(
                f"the gradient of {arrays.entries[at].name!r} is zero, which is not a finding: {rightly}"
            )
            continue
        facts = [ZERO]
        if consumers:
            facts.append(f"it comes from the gradient of {arrays.names(consumers)}, which is not zero")
        if behind:
            facts.append(f"{_more(len(behind))} 0 because of it: {arrays.names(sorted(behind, reverse=True))}")
        entry = arrays.entries[at]
        source = arrays.entries[consumers[0]].source if consumers else entry.source
        headline = f"the gradient of {entry.name!r} is zero everywhere"
        yield Finding("zero_gradient", entry.name, headline, source, tuple(facts), known=KNOWN)


def _is_of_few_calls(calls: Sequence[int], zero: set[int], together: set[int]) -> bool:
    # Is the gradient zero in less than half of the calls of one line, none of which leads into another? This is normal
    # if a loop processes samples one by one, because for some samples no unit is active.
    return 2 * sum(each in zero for each in calls) < len(calls) and sum(each in together for each in calls) < 2


def _calls(arrays: RecordArrays) -> dict[object, list[int]]:
    # Group the values with a gradient by the module or line that computed them.
    found: dict[object, list[int]] = {}
    for at, grad in enumerate(arrays.grads):
        if grad is not None:
            found.setdefault(_call(arrays, at), []).append(at)
    return found


def _call(arrays: RecordArrays, at: int) -> object:
    # Return a key that is the same for all calls of a module, or for all executions of a line.
    entry = arrays.entries[at]
    line = entry.source
    return strip(entry.name), line and (line.file, line.line)


def _partials(arrays: RecordArrays) -> Iterator[Finding]:
    for at, entry in enumerate(arrays.entries):
        for source, edge in arrays.graph.inputs[at].items():
            partial = arrays.numbers(edge.partial)
            if partial is not None and not partial.any():
                wrt = arrays.entries[source].name
                headline = f"the derivative of {entry.name!r} with respect to {wrt!r} is zero everywhere"
                yield Finding("zero_derivative", entry.name, headline, entry.source, (DERIVATIVE,))


def _more(count: int) -> str:
    return "1 more gradient is" if count == 1 else f"{count} more gradients are"
