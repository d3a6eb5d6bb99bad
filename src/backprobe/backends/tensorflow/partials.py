"""Local partials: the derivative of one captured value with respect to the captured values directly before it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import tensorflow as tf

from backprobe.backends.facts import Backward, Outcome, Root
from backprobe.backends.immutable import path_sums, too_large
from backprobe.backends.outcomes import with_flow
from backprobe.backends.tensorflow.capture import Capture
from backprobe.backends.tensorflow.taps import Taps
from backprobe.record.inputs import Edge
from backprobe.record.quoted_errors import said_by
from backprobe.record.reasons import Reason


def local_partials(
    tape: Any,
    taps: Taps,
    root: Root,
    captures: Sequence[Capture],
    outcomes: Sequence[Outcome],
    links: Sequence[Sequence[int]],
    order: tuple[int, ...],
    *,
    full: bool,
    kept: Callable[[int, Any], Any] | None = None,
) -> Backward:
    """Differentiate each capture with respect to its direct inputs, while the other captured tensors block gradients.

    If ``kept`` converts the contributions, these are not stored, and path sums are not compared.
    """
    numbers = frozenset(capture.number for capture in captures if not capture.is_variable)
    notes: list[tuple[int, Reason]] = []
    found = []
    for at, (outcome, own) in enumerate(zip(outcomes, links, strict=True)):
        if own:
            taps.stopped = numbers - {captures[at].number}
            edges, missing = _edges(tape, captures[at], {one: captures[one] for one in own}, outcome.grad, full)
            notes += [(at, why) for why in missing]
            outcome = replace(outcome, inputs=tuple(with_flow(edges, kept)))
        found.append(outcome)
    taps.stopped = frozenset()
    output = next(at for at, capture in enumerate(captures) if capture.source is root.output)
    return Backward(found, order, path_sums(found, output) if kept is None else None, tuple(notes))


def _edges(
    tape: Any, consumer: Capture, sources: Mapping[int, Capture], arrived: Any, full: bool
) -> tuple[list[Edge], list[Reason]]:
    # Return the edges into one value, and why partials are missing. If the value has a gradient, each edge has its
    # share of it.
    def flow(seed: Any) -> list[Any]:
        """Return the gradient that arrives at each input; zeros if nothing arrives."""
        inputs = [source.source for source in sources.values()]
        flows = zip(sources.values(), tape.gradient(consumer.source, inputs, output_gradients=seed), strict=True)
        return [tf.zeros_like(one.value) if flow is None else tf.convert_to_tensor(flow) for one, flow in flows]

    blocks: Mapping[int, Any] = {}
    notes: list[Reason] = []
    try:
        if not consumer.value.dtype.is_complex:
            blocks, notes = _blocks(consumer, sources, flow, full)
    except LookupError as error:  # backward of the program does not need this derivative
        if arrived is not None:
            raise
        notes = [Reason("partials_missing", {"error": said_by(error)})]
    flows = [None] * len(sources) if arrived is None else flow(arrived)
    return [Edge(at, blocks.get(at), flowed) for at, flowed in zip(sources, flows, strict=True)], notes


def _blocks(
    consumer: Capture, sources: Mapping[int, Capture], flow: Callable[[Any], list[Any]], full: bool
) -> tuple[Mapping[int, Any], list[Reason]]:
    # Return the local partials of a value of one element. For larger values return the full blocks if requested,
    # computed with one pass per element, and a note for each block that is too large.
    size, shape, dtype = _size(consumer), consumer.value.shape, consumer.value.dtype
    if size == 1:
        return dict(zip(sources, flow(tf.ones_like(consumer.value)), strict=True)), []
    large = {at: too_large(size * _size(source)) for at, source in sources.items()} if full else {}
    wanted = [at for at, note in large.items() if note is None]
    seeds = tf.reshape(tf.eye(size, dtype=dtype), (size, *shape)) if wanted else ()
    rows = [dict(zip(sources, flow(seed), strict=True)) for seed in seeds]
    blocks = {}
    for at in wanted:
        value = sources[at].value
        block = tf.convert_to_tensor([row[at] for row in rows], value.dtype)
        blocks[at] = tf.reshape(block, (*shape, *value.shape))
    return blocks, [note for note in large.values() if note is not None]


def _size(capture: Capture) -> int:
    return math.prod(capture.value.shape)
