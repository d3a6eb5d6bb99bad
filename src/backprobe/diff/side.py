"""One of two recordings that are compared."""

from __future__ import annotations

from backprobe.record.entries import Record
from backprobe.record.graph import Graph


class Side:
    """A recording with its graph."""

    def __init__(self, record: Record) -> None:
        self.record, self.entries, self.graph = record, record.entries, Graph.of(record)
