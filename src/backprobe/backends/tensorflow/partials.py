"""Local partials: what flows from one captured value into the next, and no further."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy
import tensorflow as tf

from backprobe.backends.facts import Backward, Outcome, Ran
from backprobe.backends.immutable import path_sums
from backprobe.backends.tensorflow.capture import Capture
from backprobe.backends.tensorflow.taps import Taps
from backprobe.backends.tensorflow.tensors import EPSILON
from backprobe.record.entries import GradStatus
from backprobe.record.inputs import Edge
from backprobe.record.reasons import Reason

LARGEST_BLOCK = 1_000_000  # elements of a Jacobian block that ``partials="full"`` still takes


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
    gradients = [o.grad.numpy() if o.status is GradStatus.OK else None for o in outcomes]
    epsilons = [EPSILON.get(capture.value.dtype, 0.0) for capture in captures]
    return Backward(found, order, path_sums(found, gradients, epsilons, output), tuple(notes))


@dataclass
class _Pass:
    """What flows from one value into its direct inputs."""

    tape: Any
    consumer: Capture
    sources: Sequence[Capture]
    blocks: dict[int, Any] = field(default_factory=dict)
    flows: dict[int, Any] = field(default_factory=dict)
    notes: list[Reason] = field(default_factory=list)

    def edge(self, nth: int, at: int) -> Edge:
        return Edge(at, self.blocks.get(nth), self.flows.get(nth))

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
            products = self._products(arrived)
            self.flows = dict(enumerate(self._flow(arrived))) if products is None else products

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
        if elements > LARGEST_BLOCK:
            self.notes.append(Reason("block_too_large", {"elements": f"{elements:,}", "most": f"{LARGEST_BLOCK:,}"}))
        return elements <= LARGEST_BLOCK

    def _block(self, nth: int, rows: Sequence[Any]) -> Any:
        value = self.sources[nth].value
        shape = (*self.consumer.value.shape, *value.shape)
        return tf.reshape(tf.stack(rows), shape) if rows else tf.zeros(shape, value.dtype)

    def _products(self, arrived: Any) -> dict[int, Any] | None:
        """The gradient times each partial, of a value of one number; None where that is not finite.

        There the tape has to tell, for it leaves out what it knows to be zero, where zero times infinity would be NaN.
        """
        if _size(self.consumer) != 1 or not self.blocks:
            return None
        products = {nth: tf.cast(tf.reshape(arrived, ()), block.dtype) * block for nth, block in self.blocks.items()}
        finite = all(bool(numpy.isfinite(product.numpy()).all()) for product in products.values())
        return products if finite else None


def _size(capture: Capture) -> int:
    return math.prod(capture.value.shape)
