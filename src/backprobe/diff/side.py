"""One of two recordings, as comparing sees it."""

from __future__ import annotations

from collections import defaultdict
from functools import cached_property

from backprobe.record.entries import Record
from backprobe.record.graph import Graph
from backprobe.record.names import split, strip


class Side:
    """One recording, as matching sees it."""

    def __init__(self, record: Record) -> None:
        self.record, self.entries, self.graph = record, record.entries, Graph.of(record)
        self.counted: dict[str, list[str]] = defaultdict(list)
        for full in record.names:
            self.counted[strip(full)].append(full)

    def sources(self, at: int) -> set[int]:
        """What an entry was computed from: along its edges, and what its expression mentions."""
        reads = {read.at for read in self.entries[at].reads if read.at < at}
        return {*self.graph.inputs[at], *reads}

    @cached_property
    def returned(self) -> set[int]:
        """What has no other name than that of what a module or function returned."""
        bound = {at for full, at in self.record.names.items() if not _is_return(full)}
        return set(self.record.names.values()) - bound

    def is_parameter(self, at: int) -> bool:
        return at in self.graph.parameters

    def is_leaf(self, at: int) -> bool:
        """Is it an argument, a parameter or a buffer, and not computed by the program?"""
        source = self.entries[at].source
        is_given = (source is None or not source.expression) and at not in self.returned
        return self.is_parameter(at) or (is_given and not self.sources(at) and not self.entries[at].indirect)


def _is_return(full: str) -> bool:
    local = split(full)[1]
    return local is not None and (local == "return" or local.startswith(("return#", "return.")))
