"""One pass of the tape over all captured values, and what each of them got."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import tensorflow as tf

from backprobe.backends.facts import Backward, Options, Outcome, Ran
from backprobe.backends.tensorflow.capture import Capture
from backprobe.backends.tensorflow.operation_log import Key, OperationLog
from backprobe.backends.tensorflow.partials import local_partials
from backprobe.backends.tensorflow.taps import Taps
from backprobe.record.entries import GradStatus
from backprobe.record.inputs import Edge
from backprobe.record.reasons import Reason

NOT_CONNECTED, WRITTEN_SINCE, MIXED = Reason("no_path"), Reason("written_since"), Reason("variable_read_unseen")


def differentiate(tape: Any, log: OperationLog, taps: Taps, options: Options, ran: Ran) -> Backward:
    """Run backward once; what each capture got, and the order in which backward visits them."""
    captures: Sequence[Capture] = ran.captures
    recorded = {capture.key: at for at, capture in reversed(list(enumerate(captures))) if capture.is_followed}
    sources = {key: _sources(captures[at], log) for key, at in recorded.items()}
    found = tape.gradient(ran.output, sources, output_gradients=ran.cotangent)
    outcomes = [_outcome(capture, _sum(found.get(capture.key, ())), log) for capture in captures]
    links = _links(log, captures, recorded, outcomes)
    order = _visited(log, captures, outcomes)
    if options.partials:
        return local_partials(tape, taps, ran, outcomes, links, order, full=options.partials == "full")
    linked = [replace(o, inputs=tuple(map(Edge, own))) for o, own in zip(outcomes, links, strict=True)]
    return Backward(linked, order)


def _sources(capture: Capture, log: OperationLog) -> list[Any]:
    """The gradient of a capture is the sum of those of these: of one version of a Variable, what was read of it."""
    uses = log.variables.get(capture.number)
    if uses is None or not uses.writes:
        return [capture.source]
    return [] if uses.is_read_otherwise else uses.reads_of(capture.version)


def _sum(parts: Sequence[Any]) -> Any:
    there = [tf.convert_to_tensor(part) for part in parts if part is not None]
    return None if not there else there[0] if len(there) == 1 else tf.add_n(there)


def _outcome(capture: Capture, gradient: Any, log: OperationLog) -> Outcome:
    if not capture.is_followed:
        return Outcome(capture.status, capture.why, capture.value)
    uses = log.variables.get(capture.number)
    if uses is not None and uses.writes and uses.is_read_otherwise:
        return Outcome(GradStatus.OPAQUE, MIXED, capture.value)
    if gradient is None:
        is_old = uses is not None and len(uses.writes) > capture.version
        why = WRITTEN_SINCE if is_old else NOT_CONNECTED
        return Outcome(GradStatus.NOT_CONNECTED, why, capture.value)
    return Outcome(GradStatus.OK, None, capture.value, gradient)


def _links(
    log: OperationLog, captures: Sequence[Capture], recorded: Mapping[Key, int], outcomes: Sequence[Outcome]
) -> list[list[int]]:
    """The captures that flow directly into each. Some operations, such as tf.round, have no derivative:
    what is not connected flows into nothing that is.
    """
    dead = {at for at, outcome in enumerate(outcomes) if outcome.status is GradStatus.NOT_CONNECTED}
    found = [log.sources(c.number, recorded) if c.is_followed and not c.is_variable else [] for c in captures]
    return [
        [at for at in own if outcome.status is not GradStatus.OK or at not in dead]
        for own, outcome in zip(found, outcomes, strict=True)
    ]


def _visited(log: OperationLog, captures: Sequence[Capture], outcomes: Sequence[Outcome]) -> tuple[int, ...]:
    """Those that have a gradient, the one made last first: so backward visits what forward made."""
    there = [at for at, outcome in enumerate(outcomes) if outcome.status is GradStatus.OK]
    return tuple(sorted(there, key=lambda at: log.position(captures[at].number), reverse=True))
