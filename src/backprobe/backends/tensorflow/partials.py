"""Local partials: what flows from one captured value into the next, and no further."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import tensorflow as tf

from backprobe.backends.facts import Backward, Outcome, Ran
from backprobe.backends.immutable import path_sums, too_large
from backprobe.backends.tensorflow.capture import Capture
from backprobe.backends.tensorflow.taps import Taps
from backprobe.record.inputs import Edge
from backprobe.record.reasons import Reason


def local_partials(
    tape: Any, taps: Taps, ran: Ran, outcomes: Sequence[Outcome], links: Sequence[Sequence[int]],
    order: tuple[int, ...], *, full: bool,
) -> Backward:  # fmt: skip
    """One pass from each capture back to its direct inputs, while all other captures let nothing through."""
    captures: Sequence[Capture] = ran.captures
    numbers = frozenset(capture.number for capture in captures if not capture.is_variable)
    notes: list[tuple[int, Reason]] = []
    found = []
    for at, (outcome, own) in enumerate(zip(outcomes, links, strict=True)):
        taken = _Pass(tape, captures[at], [captures[source] for source in own])
        if own:
            with taps.stopping(numbers - {captures[at].number}):
                taken.run(outcome.grad, full)
        notes += [(at, note) for note in taken.notes]
        found.append(replace(outcome, inputs=tuple(taken.edge(nth, source) for nth, source in enumerate(own))))
    output = next(at for at, capture in enumerate(captures) if capture.source is ran.output)
    return Backward(found, order, path_sums(found, output), tuple(notes))


@dataclass
class _Pass:
    """What flows from one value into its direct inputs."""

    tape: Any
    consumer: Capture
    sources: Sequence[Capture]
    blocks: dict[int, Any] = field(default_factory=dict)
    flows: Sequence[Any] = ()
    notes: list[Reason] = field(default_factory=list)

    def edge(self, nth: int, at: int) -> Edge:
        return Edge(at, self.blocks.get(nth), self.flows[nth] if self.flows else None)

    def run(self, arrived: Any, full: bool) -> None:
        """The local partials, and what of ``arrived``, the value's own gradient, flows into each input."""
        try:
            if not self.consumer.value.dtype.is_complex:
                self._take_blocks(full)
        except LookupError as error:  # an operation without derivative, which the program itself goes around
            if arrived is not None:
                raise
            self.notes.append(Reason("partials_missing", {"error": str(error)}))
        if arrived is not None:
            self.flows = self._flow(arrived)

    def _flow(self, seed: Any) -> list[Any]:
        """What arrives at each input: zeros, where nothing does."""
        sources = [source.source for source in self.sources]
        found = self.tape.gradient(self.consumer.source, sources, output_gradients=seed)
        return [
            tf.zeros_like(source.value) if flow is None else tf.convert_to_tensor(flow)
            for source, flow in zip(self.sources, found, strict=True)
        ]

    def _take_blocks(self, full: bool) -> None:
        """The local partial of a value of one number; otherwise the whole block if asked for, one pass an element."""
        size = _size(self.consumer)
        if size == 1:
            self.blocks = dict(enumerate(self._flow(tf.ones_like(self.consumer.value))))
        elif full:
            wanted = [nth for nth, source in enumerate(self.sources) if self._is_small(size * _size(source))]
            seeds = tf.reshape(tf.eye(size, dtype=self.consumer.value.dtype), (size, *self.consumer.value.shape))
            rows = [self._flow(seed) for seed in seeds] if wanted else []
            self.blocks = {nth: self._block(nth, [row[nth] for row in rows]) for nth in wanted}

    def _is_small(self, elements: int) -> bool:
        note = too_large(elements)
        self.notes += [] if note is None else [note]
        return note is None

    def _block(self, nth: int, rows: Sequence[Any]) -> Any:
        value = self.sources[nth].value
        shape = (*self.consumer.value.shape, *value.shape)
        return tf.reshape(tf.stack(rows), shape) if rows else tf.zeros(shape, value.dtype)


def _size(capture: Capture) -> int:
    return math.prod(capture.value.shape)
