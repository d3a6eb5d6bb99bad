"""The content of a circuit's page as plain data: names, places, numbers as text and histograms, without tensors."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import cached_property
from typing import Any

from backprobe.backends.tensors import Arrays
from backprobe.findings.phrasing import plural
from backprobe.record.brief import SMALL, path, place, sizes
from backprobe.record.entries import Entry, GradStatus
from backprobe.record.graph import Flow, Graph
from backprobe.record.held import Lost, plain_text
from backprobe.record.names import strip
from backprobe.record.source import Source
from backprobe.show.captions import DASHED, Captions
from backprobe.show.flows import NUMBERS, flows_of
from backprobe.show.text import describe, forms
from backprobe.view.circuit.histogram import statistics

SHORT = 16  # the most characters of a value that is shown beside another one


class Content:
    """The data of one page. Values are identified by their positions in the record, and boxes by their places in
    ``boxes``.
    """

    def __init__(self, captions: Captions, depth: int | None, opened: Collection[str]) -> None:
        self.captions, self.arrays, self.record, self.depth = captions, captions.arrays, captions.record, depth
        self.graph, self.flows = Graph.of(self.record), flows_of(self.record)
        self.boxes = {box: number for number, box in enumerate(self.graph.boxes)}
        opened = {*opened, *(box for at in captions.blamed for box in self.graph.boxes_around(at))}
        self.open = [self.boxes[box] for box in self.graph.boxes if box in opened]

    def data(self) -> dict[str, Any]:
        return {
            "kind": self.captions.drawn,
            "weighs": self.captions.weighs,
            "alarm": self.captions.alarm_words,
            "heading": self.captions.heading,
            "footer": list(self._footer()),
            "depth": self.depth,
            "outputs": list(self.record.outputs),
            "open": self.open,
            "order": list(self.graph.order),
            "partials": self.record.path_sums is not None,
            "unsummed": self._unsummed(),
            "boxes": [*map(self._box, self.graph.boxes)],
            "values": [self._value(at, entry) for at, entry in enumerate(self.record.entries) if at in self.shown],
            "edges": [*map(self._edge, self.drawn)],
        }

    @cached_property
    def drawn(self) -> list[Flow]:
        """The edges between values that are shown."""
        return [flow for flow in self.flows if {flow.source, flow.target} <= self.shown]

    @cached_property
    def shown(self) -> set[int]:
        """The positions of all tensors, and of plain numbers from which other values were computed."""
        read = {flow.source for flow in self.flows}
        return {
            at
            for at, entry in enumerate(self.record.entries)
            if entry.status is not GradStatus.NOT_TENSOR or (at in read and type(entry.held) in NUMBERS)
        }

    def _box(self, full: str) -> dict[str, Any]:
        box = self.graph.boxes[full]
        returned = [at for at in self.graph.returned[full] if at in self.shown]
        around = None if box.around is None else self.boxes[box.around]
        return {"name": strip(full), "label": box.label, "around": around, "level": box.level, "returned": returned}

    def _value(self, at: int, entry: Entry) -> dict[str, Any]:
        box = self.graph.box_of[at]
        held = None if isinstance(entry.held, Lost) else entry.held
        title, gradient = self.captions.title(at), entry.grad_or_none
        found = {
            "at": at,
            "name": entry.name,
            "title": title,
            "aliases": list(entry.aliases),
            "kind": self.captions.role(at),
            "box": None if box is None else self.boxes[box],
            "value": self.captions.value(at),
            "gradient": [*filter(None, self.captions.gradient(at, entry.name))],
            "brief": self.captions.brief(at),
            "status": str(entry.status),
            "meaning": entry.status.meaning,
            "health": self.captions.kind(at),
            "notes": self.captions.notes(at),
            "level": self.captions.level(at),
            "weight": self.captions.weight(at),
            "number": None if gradient is None else self._number(gradient),
            "described": " ".join(filter(None, [sizes(entry.shape or ()), entry.dtype, entry.device])),
            "valueStatistics": None if entry.status is GradStatus.NOT_TENSOR else statistics(held, self.arrays),
            "gradientStatistics": statistics(gradient, self.arrays),
        }
        return found | self._first(at) | self._source(entry.source)

    def _first(self, at: int) -> dict[str, Any]:
        # In a comparison: the first recording's value, and both gradients as text.
        partner = self.captions.partner(at)
        if partner is None:
            return {}
        (first, arrays), own = partner, self.record.entries[at]
        held = None if isinstance(first.held, Lost) else first.held
        statistic = None if first.status is GradStatus.NOT_TENSOR else statistics(held, arrays)
        texts = {"value": _described(held, first, arrays), "gradient": _gradient(first, arrays)}
        found = {"name": first.name, **texts, "valueStatistics": statistic}
        found["gradientStatistics"] = statistics(first.grad_or_none, arrays)
        both = [_short(first, arrays), _short(own, self.arrays)]
        brief = [" | ".join(both)] if all(both) else []
        return {"first": found, "gradientText": _gradient(own, self.arrays), "brief": self.captions.brief(at) + brief}

    def _source(self, source: Source | None) -> dict[str, str]:
        if source is None:
            return {}
        at = source.file, source.line
        return {"place": place(*at), "path": path(*at), "statement": source.statement, "expression": source.expression}

    def _edge(self, flow: Flow) -> dict[str, Any]:
        found: dict[str, Any] = {"from": flow.source, "to": flow.target, "carries": flow.edge is not None}
        if flow.edge is None:
            return found
        partial, contribution = flow.edge.partial, flow.edge.contribution
        found |= {"label": self.captions.arrow(flow, upstream=False), "level": self.captions.width(flow)}
        found["finite"] = not self.captions.is_broken(flow)
        if self.captions.drawn == "attribution":
            found["attributed"] = found["label"]
        if partial is not None:
            found |= {"partial": describe(partial, self.arrays), "number": self._number(partial)}
        if contribution is not None:
            summary = self.captions.summary(contribution)
            found |= {"back": self._back(contribution), "rms": None if summary is None else summary.rms}
        return found

    def _back(self, contribution: Any) -> str:
        # The contribution that flows back along an edge; for a large tensor its rms, since it has the value's shape.
        summary = self.captions.summary(contribution)
        return forms(contribution, self.arrays)[2 if summary is not None and summary.size > SMALL else 0]

    def _unsummed(self) -> list[int]:
        # The values for which it is unknown whether the recorded paths add up to their gradients.
        sums = self.record.path_sums
        return list(self.shown) if sums is None or not sums.agree else list(sums.unjudged_at)

    def _number(self, tensor: Any) -> float | None:
        # The number in a tensor that holds a single real number; None for any other tensor.
        summary = self.arrays.summary(tensor)
        numbers = self.arrays.numbers(tensor) if summary is not None and summary.size == 1 else None
        return None if numbers is None or numbers.dtype.kind == "c" else float(numbers.reshape(()))

    def _footer(self) -> Iterator[str]:
        if len({*map(self.captions.level, range(len(self.record.entries)))} - {None}) > 1:
            yield from self.captions.legend()
        yield from self.captions.lines_left_out()
        if any(flow.edge is None for flow in self.drawn):
            yield DASHED
        yield from self.captions.about()
        if left := len(self.record.entries) - len(self.shown):
            yield f"not drawn: {plural(left, 'value')} without a tensor"
        yield from (f"note: {note}" for note in self.record.notes)


def _described(held: Any, entry: Entry, arrays: Arrays) -> str:
    if entry.status is GradStatus.NOT_TENSOR:
        return plain_text(held)
    return "overwritten" if held is None else describe(held, arrays)


def _gradient(entry: Entry, arrays: Arrays) -> str:
    gradient = entry.grad_or_none
    if gradient is not None:
        return describe(gradient, arrays)
    return "" if entry.status is GradStatus.NOT_TENSOR else str(entry.status)


def _short(entry: Entry, arrays: Arrays) -> str:
    # A short form of a value: its numbers, or the rms if there are many.
    held = None if isinstance(entry.held, Lost) else entry.held
    if entry.status is GradStatus.NOT_TENSOR:
        return plain_text(held)[:SHORT]
    summary = None if held is None else arrays.summary(held)
    if summary is None:
        return ""
    text, _, rms = forms(held, arrays)
    return text if summary.size <= SMALL and len(text) <= SHORT else rms
