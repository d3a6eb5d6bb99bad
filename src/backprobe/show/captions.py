"""The texts in a drawing: about each value and its gradient, and on each edge."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any, Literal

from backprobe.backends.facts import Summary
from backprobe.backends.tensors import Arrays
from backprobe.errors import Overwritten
from backprobe.findings.phrasing import listed
from backprobe.record.brief import SMALL, sizes
from backprobe.record.entries import Entry, GradStatus, Record
from backprobe.record.graph import Flow, Graph
from backprobe.record.held import plain_text
from backprobe.record.inputs import Edge
from backprobe.record.names import split, strip
from backprobe.record.source import expression_of
from backprobe.show.drawable import decade
from backprobe.show.text import describe, forms, outputs, path_sums

DATA = "data: not differentiated"
BRIEF = 20  # the most characters of a row's numbers
SHORT = 12  # the longest name that is still written in a ∂/∂
DASHED = "dashed line: read, but nothing flows back"


class Captions:
    """The texts for a record's entries and edges, and the sizes of their gradients relative to each other."""

    spelled = "rec"
    """The program's variable for the drawn object, for code in messages."""
    drawn: Literal["circuit", "diff", "attribution"] = "circuit"
    """The kind of drawing: a recording, or the result of a verb on a recording."""
    weighs, alarm_words = "gradient rms", "not finite"
    """Words for the number by which similar modules are compared, and for the problem that a drawing highlights."""

    def __init__(self, record: Record, arrays: Arrays) -> None:
        self.record, self.graph, self.arrays = record, Graph.of(record), arrays
        # keeps each tensor alive, because another tensor could otherwise get its identity
        self._summaries: dict[int, tuple[Any, Summary | None]] = {}

    @property
    def blamed(self) -> Sequence[int]:
        """The values that are drawn even if their box is folded."""
        return ()

    # Texts about the whole drawing.

    @property
    def heading(self) -> str:
        return outputs(self.record)

    def about(self) -> Iterator[str]:
        """Lines below the drawing that describe all of it."""
        if self.record.path_sums is not None:
            yield path_sums(self.record.path_sums)
        else:
            yield "local partials were not recorded: bp.probe(..., partials=True) writes them on the edges"

    def legend(self) -> Iterator[str]:
        """The meaning of fills and line widths."""
        yield "fill and line width: powers of 10 of the gradient's rms, the largest strongest"

    def lines_left_out(self) -> Iterator[str]:
        """Notes on flows without a line in the drawing."""
        if any("step" in entry.axes for entry in self.record.entries):
            yield "in a loop: a node holds a value of all steps; what a step hands on to the next has no line"

    # Texts about a single value.

    def title(self, at: int) -> str:
        """The name of a value inside its box."""
        written = self.record.entries[at].name
        scope, local = split(self.graph.full_names[at])
        if local is None:
            box = self.graph.box_of[at]
            return written.removeprefix(strip(self.graph.boxes[box].full) + ".") if box else written
        own = split(written)[1]
        return own if own is not None else "return" if scope else written

    def role(self, at: int) -> str:
        """The role of a value in the program: output, parameter, plain, value, or input."""
        if at in self.record.outputs:
            return "output"
        if at in self.graph.parameters:
            return "parameter"
        entry = self.record.entries[at]
        if entry.status is GradStatus.NOT_TENSOR:
            return "plain"
        return "value" if entry.inputs or entry.reads or expression_of(entry.source) else "input"

    def is_data(self, at: int) -> bool:
        """Is the value an input that requires no gradient, or computed only from such inputs?

        Frozen parameters do not count as data, and neither do values computed from them.
        """
        entry, (_, local) = self.record.entries[at], split(self.graph.full_names[at])
        if self.role(at) in ("output", "parameter") or local is None or local.startswith("return"):
            return False
        if not entry.is_because("frozen"):
            return entry.status is GradStatus.NOT_FLOAT and self.role(at) == "input"
        is_computed = self.role(at) == "value"
        return (not is_computed or bool(entry.reads)) and all(map(self.is_data, {one.at for one in entry.reads} - {at}))

    def lines(self, at: int, name: str) -> list[str]:
        """The lines that a node shows for a value and its gradient. ``name`` is the value's name in that node."""
        value = self.value(at)
        return [*([f"= {value}"] if value else []), *filter(None, self.gradient(at, name))]

    def brief(self, at: int) -> list[str]:
        """Shorter lines about a value and its gradient."""
        entry = self.record.entries[at]
        value, summary = self.brief_value(at), self.summary(entry.grad_or_none)
        is_one = summary is None or summary.size == 1
        gradient = self.gradient(at, entry.name)[:1] if is_one else [self.brief_gradient(at)]
        return [*([f"= {value}"] if value else []), *gradient]

    def notes(self, at: int) -> list[str]:
        """Further facts about a value, besides its numbers."""
        return []

    def worst(self, positions: Sequence[int]) -> int | None:
        """The value to highlight among values that are drawn as one node; None if none of them needs attention."""
        return next((at for at in positions if self.kind(at) == "nonfinite"), None)

    def alarm(self, positions: Sequence[int]) -> str:
        """The problem of some values, in words."""
        bad = [self.record.entries[at].name for at in positions if self.kind(at) == "nonfinite"]
        return f"not finite: the gradient of {listed(bad, 3)}"

    def value(self, at: int) -> str:
        return self._value(at, lambda held: describe(held, self.arrays), "value overwritten")

    def brief_value(self, at: int) -> str:
        """A short text for the value; for a large tensor its shape and rms."""
        return self._value(at, self._brief, "overwritten")

    def _value(self, at: int, text: Callable[[Any], str], overwritten: str) -> str:
        entry = self.record.entries[at]
        if entry.status is GradStatus.NOT_TENSOR:
            return plain_text(entry.held)
        try:
            held = entry.value
        except Overwritten:
            return overwritten
        return text(held)

    def brief_gradient(self, at: int) -> str:
        """A short text for the gradient; for a large one its rms, because its shape is that of the value."""
        entry = self.record.entries[at]
        if entry.status is not GradStatus.OK:
            said = DATA if self.is_data(at) else f"no gradient: {entry.status}"
            return "" if entry.status is GradStatus.NOT_TENSOR else said
        return f"gradient {self._brief(entry.grad, False)}" if self.kind(at) != "zero" else "gradient is zero"

    def _brief(self, tensor: Any, shaped: bool = True) -> str:
        # A few numbers in full; for more numbers their rms, and the shape if ``shaped``.
        text, with_shape, rms = forms(tensor, self.arrays)
        summary = self.summary(tensor)
        if summary is None or not 0 < summary.size <= SMALL:
            return with_shape if shaped else rms
        if len(text) <= BRIEF:
            return text
        rms = f"rms {summary.rms:.3g}"
        return f"{sizes(self.arrays.describe(tensor).shape or ())} {rms}" if shaped else rms

    def kind(self, at: int) -> str:
        """The kind of a value, which decides how it is drawn: ok, zero, nonfinite, missing, data, or blamed."""
        entry = self.record.entries[at]
        if entry.status is not GradStatus.OK:
            return "data" if self.is_data(at) else "missing"
        return "nonfinite" if self.is_not_finite(entry.grad) else "zero" if self._is_zero(entry.grad) else "ok"

    def gradient(self, at: int, name: str) -> list[str]:
        """Lines about the gradient of a value with this name: its numbers, and anything special about it."""
        entry = self.record.entries[at]
        if entry.status is GradStatus.NOT_TENSOR:
            return []
        if entry.status is not GradStatus.OK:
            return [DATA] if self.is_data(at) else [f"no gradient: {entry.status}", entry.reason]
        kind, line = self.kind(at), self._number(entry.grad, name)
        if kind == "zero":
            return [line, f"zero: {self._why_zero(at)}"]
        return [line, f"not finite: {self._why_not_finite(at)}"] if kind == "nonfinite" else [line]

    def _number(self, gradient: Any, name: str) -> str:
        # For a small gradient: all numbers and the output's name, unless there are several outputs. For a large
        # gradient: only its size, because its shape is that of the value.
        output = self._output
        is_of_one = len(self.record.outputs) == 1 and max(len(output), len(name)) <= SHORT
        symbol = f"∂{output}/∂{name}" if is_of_one else "gradient"
        summary = self.summary(gradient)
        if summary is None or summary.size <= SMALL:
            return f"{symbol} = {describe(gradient, self.arrays)}"
        bad = f", {summary.nonfinite} of {summary.size} not finite" if summary.nonfinite else ""
        return f"gradient rms {summary.rms:.3g} max {summary.largest:.3g}{bad}"

    @cached_property
    def _output(self) -> str:
        # The output's name in a ∂/∂. If a module returns the output, this is the module's name.
        at = self.record.outputs[0]
        box, title = self.graph.box_of[at], self.title(at)
        return self.graph.boxes[box].label if box is not None and title == "return" else title

    def _onward(self, at: int) -> list[tuple[Entry, Edge]]:
        # The entries with a gradient into which a value flows, with the edges to them.
        onward = [(self.record.entries[one], self.graph.inputs[one][at]) for one in self.graph.consumers[at]]
        return [(target, edge) for target, edge in onward if target.status is GradStatus.OK]

    def _why_zero(self, at: int) -> str:
        onward = self._onward(at)
        if not onward:
            return "the cotangent is 0" if at in self.record.outputs else "nothing flows back to it"
        if all(self._is_zero(edge.partial) for _, edge in onward):
            return "every local partial onward is 0"
        if all(self._is_zero(target.grad) for target, _ in onward):
            return "so is the gradient of all it flows into"
        return "what flows back to it is 0, or cancels"

    def _why_not_finite(self, at: int) -> str:
        onward = self._onward(at)
        for target, _ in onward:
            if self.is_not_finite(target.grad):
                return f"it came with the gradient of {target.name}"
        for target, edge in onward:
            if self.is_not_finite(edge.contribution):
                return f"it arises on the way from {target.name}, whose gradient is finite"
        names = [target.name for target, _ in onward[:3]]
        return f"first here, of {' and '.join(names)}" if names else "the cotangent is not"

    def _is_zero(self, tensor: Any) -> bool:
        summary = self.summary(tensor)
        return summary is not None and not summary.nonfinite and not summary.largest

    def is_not_finite(self, tensor: Any) -> bool:
        summary = self.summary(tensor)
        return summary is not None and bool(summary.nonfinite)

    def summary(self, tensor: Any) -> Summary | None:
        """The statistics of a tensor, computed once for all captions."""
        if tensor is None:
            return None
        if id(tensor) not in self._summaries:
            self._summaries[id(tensor)] = tensor, self.arrays.summary(tensor)
        return self._summaries[id(tensor)][1]

    def partner(self, at: int) -> tuple[Entry, Arrays] | None:
        """In a comparison: the value of the first recording with which this value is compared, and the arrays to read
        its numbers.
        """
        return None

    # Methods that compute magnitudes.

    @cached_property
    def largest(self) -> float:
        """The largest rms among the gradients."""
        summaries = (self.summary(e.grad) for e in self.record.entries if e.status is GradStatus.OK)
        sizes = [found.rms for found in summaries if found is not None and math.isfinite(found.rms)]
        return max(sizes, default=0.0)

    def level(self, at: int) -> int | None:
        """How dark a value's fill is: the decade of its gradient."""
        return self.decade(self.record.entries[at].grad_or_none)

    def decade(self, tensor: Any) -> int | None:
        """The decade of a gradient's rms, relative to the largest gradient; None for zeros, and for NaN or Inf."""
        summary = self.summary(tensor)
        return None if summary is None or summary.nonfinite else decade(summary.rms, self.largest)

    def width(self, flow: Flow) -> int | None:
        """The width of an edge's line: the decade of the gradient that flows back along it."""
        return None if flow.edge is None else self.decade(flow.edge.contribution)

    def is_broken(self, flow: Flow) -> bool:
        """Is the gradient that flows back along an edge NaN or infinite?"""
        return flow.edge is not None and self.is_not_finite(flow.edge.contribution)

    def weight(self, at: int) -> float | None:
        """The number by which similar modules are compared."""
        summary = self.summary(self.record.entries[at].grad_or_none)
        return None if summary is None else summary.rms

    def local(self, flow: Flow, *, upstream: bool) -> str:
        """The label of an edge if its partial has only a few numbers and the label is short; otherwise empty."""
        partial = flow.edge.partial if flow.edge is not None else None
        summary = self.summary(partial)
        said = self.arrow(flow, upstream=upstream) if summary is not None and summary.size <= SMALL else ""
        return said if len(said) <= (2 * BRIEF if upstream else BRIEF) else ""

    def arrow(self, flow: Flow, *, upstream: bool) -> str:
        """The label of an edge: the local partial, or with ``upstream`` also upstream × local = contribution. For a
        large partial only its rms; without a partial, the rms of the gradient that flows back.
        """
        edge = flow.edge
        if edge is None:
            return ""
        summary = self.summary(edge.contribution if edge.partial is None else edge.partial)
        if summary is None:
            return ""
        if edge.partial is None or summary.size > SMALL:
            return f"rms {summary.rms:.3g}" if not summary.nonfinite else f"{summary.nonfinite} not finite"
        local = describe(edge.partial, self.arrays)
        target = self.record.entries[flow.target]
        if not upstream or edge.contribution is None or target.status is not GradStatus.OK:
            return local
        return f"{describe(target.grad, self.arrays)} × {local} = {describe(edge.contribution, self.arrays)}"
