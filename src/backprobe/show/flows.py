"""The lines in a drawing: the edges of the graph, and reads of values without a derivative."""

from __future__ import annotations

from collections.abc import Sequence

from backprobe.cuts.missing_edges import Dataflow
from backprobe.cuts.operation_names import WITHOUT_DERIVATIVE, WITHOUT_HISTORY
from backprobe.record.entries import Record
from backprobe.record.graph import Flow, Graph, kept
from backprobe.record.names import strip

NUMBERS = (int, float, complex)
"""Types of plain numbers that are drawn if an expression reads them."""


def flows_of(record: Record) -> Sequence[Flow]:
    """The flows of the graph, and flows of values that a line detaches: ``x + u.detach()`` reads ``u``.

    The result is cached with the record, because fitting a drawing to a page needs it many times.
    """
    return kept(record, flows_of, lambda: _flows_of(record))


def _flows_of(record: Record) -> Sequence[Flow]:
    graph = Graph.of(record)
    flows = graph.flows  # computing the flows also fills ``read_beside``, so this line comes first
    pairs = [pair for pair in graph.read_beside if not _is_by_part(record, flows, *pair)]
    return [*flows, *_cut_in_lines(record, pairs)] if pairs else flows


def _is_by_part(record: Record, flows: Sequence[Flow], source: int, target: int) -> bool:
    # Does the value go into an unnamed operation that is part of the target's line and has its own entry?
    line = record.entries[target].source
    parts = (record.entries[flow.target] for flow in flows if flow.source == source)
    return line is not None and any(
        strip(part.name).endswith("()")
        and part.source is not None
        and bool(part.source.expression)
        and part.source.expression in line.expression
        for part in parts
    )


def _cut_in_lines(record: Record, pairs: Sequence[tuple[int, int]]) -> list[Flow]:
    flow = Dataflow.of(record)
    cuts = flow.among({each for pair in pairs for each in pair})
    firm = {
        (cut.mention.source, cut.target)
        for cut in cuts
        if cut.mention.use.kind in WITHOUT_HISTORY | WITHOUT_DERIVATIVE and not cut.mention.use.is_conditional
    }
    return [Flow(source, target, None) for source, target in pairs if (source, target) in firm]
