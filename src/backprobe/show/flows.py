"""Lines of a drawing: along the edges of the graph, and from what an expression reads without a derivative."""

from __future__ import annotations

from collections.abc import Sequence

from backprobe.cuts.missing_edges import Dataflow
from backprobe.cuts.operation_names import WITHOUT_DERIVATIVE, WITHOUT_HISTORY
from backprobe.record.entries import Record
from backprobe.record.graph import Flow, Graph, kept
from backprobe.record.names import strip

NUMBERS = (int, float, complex)
"""Plain numbers that are shown where an expression reads them."""


def flows_of(record: Record) -> Sequence[Flow]:
    """The flows of the graph, and those of values that a line takes out of it: ``x + u.detach()`` reads ``u``.

    They are kept with the record, as its graph is: a drawing that is fitted to a page asks for them many times.
    """
    return kept(record, flows_of, lambda: _flows_of(record))


def _flows_of(record: Record) -> Sequence[Flow]:
    graph = Graph.of(record)
    flows = graph.flows  # which finds what is read beside them
    pairs = [pair for pair in graph.read_beside if not _is_by_part(record, flows, *pair)]
    return [*flows, *_cut_in_lines(record, pairs)] if pairs else flows


def _is_by_part(record: Record, flows: Sequence[Flow], source: int, target: int) -> bool:
    # Does it go into an operation without a name that is a part of the line, and an entry of its own?
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
