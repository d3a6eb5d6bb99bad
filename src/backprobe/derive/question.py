"""The question to answer: which derivative, along which paths, and whether the recording can answer it."""

from __future__ import annotations

from backprobe.derive.chain import Chain
from backprobe.derive.factors import size
from backprobe.derive.paths import paths
from backprobe.errors import BadOption
from backprobe.record.entries import Entry, GradStatus
from backprobe.record.graph import Graph
from backprobe.recording import Recording, entry_of


def asked(recording: Recording, name: str, of: str | None) -> Chain:
    """The chain from the output, or from ``of``, to a value. Raises BadOption, NoGradient and look-up errors."""
    entries = recording.record.entries
    entry, start = entry_of(recording, name, "bp.derive(rec, {})"), _output(recording, name, of)
    graph = Graph.of(recording.record)
    at, top = graph.positions[entry.name], graph.positions[start.name]
    every = paths(graph, top, at, lambda *_: True)
    if len(recording.outputs) == 1 and start is recording.outputs[0]:
        entry.grad  # noqa: B018 - raises where there is none
        between = paths(graph, top, at, lambda *pair: all(entries[each].status is GradStatus.OK for each in pair))
        hidden = [each for each in every.order if entries[each].status is GradStatus.OPAQUE]
        return Chain(graph, between, recorded=True, hidden=hidden)
    asking = f"bp.derive(rec, {entry.name!r}, of={start.name!r})"
    if not every.count:
        backwards = at in graph.descendants(top)
        raise BadOption(
            f"{start.name} does not depend on {entry.name}",
            asked=asking,
            found=f"{entry.name} depends on {start.name}" if backwards else "no path of recorded values between them",
            next=f"bp.derive(rec, {start.name!r}, of={entry.name!r})" if backwards else "print(rec)",
        )
    for each in every.order:
        if size(entries[each]) != 1 or any(edge.partial is None for edge in every.inputs[each].values()):
            raise BadOption(
                f"∂{start.name}/∂{entry.name} was not recorded",
                asked=asking,
                found=f"{entries[each].name} between them is not a single number",
                why="the recorded gradients are of the output, and the partials of tensors cannot be multiplied out",
                next="bp.probe(f, of=..., partials=True), with that value as the output",
            )
    return Chain(graph, every, recorded=False)


def _output(recording: Recording, name: str, of: str | None) -> Entry:
    if of is not None:
        return entry_of(recording, of, f"bp.derive(rec, {name!r}, of={{}})")
    if len(recording.outputs) > 1:
        names = [entry.name for entry in recording.outputs]
        raise BadOption(
            f"{len(names)} values were differentiated",
            asked=f"bp.derive(rec, {name!r})",
            found=", ".join(names[:8]),
            why="a derivation differentiates one value",
            next=f"bp.derive(rec, {name!r}, of={names[0]!r})",
        )
    return recording.outputs[0]
