"""Runs the tape backward once, and computes the outcome of each captured value."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import tensorflow as tf

from backprobe.backends.facts import Backward, Options, Outcome, Ran, Root, WrittenVersion
from backprobe.backends.tensorflow import private, run_once
from backprobe.backends.tensorflow.capture import Capture
from backprobe.backends.tensorflow.cuts import Severed
from backprobe.backends.tensorflow.operation_log import Key, OperationLog
from backprobe.backends.tensorflow.partials import local_partials
from backprobe.backends.tensorflow.taps import Taps
from backprobe.backends.tensorflow.tensors import identity, is_eager
from backprobe.backends.user_lines import source_at
from backprobe.errors import NothingToDifferentiate
from backprobe.record.entries import GradStatus
from backprobe.record.inputs import Edge
from backprobe.record.none_gradients import CutBy
from backprobe.record.reasons import Reason

NOT_CONNECTED, ASSIGNED = Reason("no_path"), Reason("assigned")
OF_GRADIENTS = Reason("no_path_of_gradient")
WRITTEN_SINCE, MIXED = Reason("written_since"), Reason("variable_read_unseen")


def differentiate(tape: Any, log: OperationLog, taps: Taps, options: Options, ran: Ran) -> list[Backward]:
    """Run backward once from each root."""
    return [_passed(tape, log, taps, options, root, ran) for root in ran.roots]


def _passed(tape: Any, log: OperationLog, taps: Taps, options: Options, root: Root, ran: Ran) -> Backward:
    # Run backward once. Return the outcome of each capture, and the order in which backward visits them.
    captures: Sequence[Capture] = ran.captures
    recorded = by_key(captures)
    gradients = _gradients(tape, log, root, captures, recorded)
    found = [_found(capture, gradients.get(capture.key), log) for capture in captures]
    links = _links(log, captures, recorded, [status for status, _ in found])
    wrote = written(log, captures, recorded)
    cut = _assigned([each for each, (_, why) in zip(captures, found, strict=True) if why is NOT_CONNECTED], root, log)
    taken = log.of_gradients() if NOT_CONNECTED in [why for _, why in found] else ()
    cut = {capture: severed for capture, severed in cut.items() if capture.number not in taken}
    outcomes = [
        Outcome(
            status,
            ASSIGNED if capture in cut else OF_GRADIENTS if why is NOT_CONNECTED and capture.number in taken else why,
            capture.value,
            gradients.get(capture.key) if status is GradStatus.OK else None,
            () if options.partials else tuple(map(Edge, own)),
            cause=cut[capture].source if capture in cut else None,
            written=wrote.get(capture.key),
        )
        for capture, (status, why), own in zip(captures, found, links, strict=True)
    ]
    order = _visited(log, captures, outcomes)
    if options.partials:
        is_full = options.partials == "full"
        return local_partials(tape, taps, root, captures, outcomes, links, order, full=is_full, kept=ran.flow)
    return Backward(outcomes, order)


def _assigned(lost: Sequence[Capture], root: Root, log: OperationLog) -> dict[Capture, Severed]:
    # Return the assignment that cut each of these captures off from the output; captures that no assignment cut off are
    # left out. The source line alone does not show whether the target of an assignment is an attribute that holds a
    # Variable.
    if not lost or not log.is_written:
        return {}
    found: dict[int, Severed] = {}
    before = log.before(map(identity, root.targets))
    for severed in log.cuts.severed_behind(before - log.variables.keys()):  # cuts of Variables include later writes
        if severed.by is CutBy.ASSIGNED:
            found |= dict.fromkeys(log.back_to_gradients(severed.inputs)[0], severed)
    return {each: found[each.number] for each in lost if each.number in found and not each.is_variable}


def by_key(captures: Sequence[Capture]) -> dict[Key, int]:
    """Return the positions of the captures that the tape follows, by key."""
    return {capture.key: at for at, capture in reversed(list(enumerate(captures))) if capture.is_followed}


def sources(log: OperationLog, captures: Sequence[Capture], recorded: Mapping[Key, int]) -> list[list[int]]:
    """Return, for each capture, the positions of the captures that flow directly into it. For a Variable, and for a
    capture that the tape does not follow, there are none.
    """
    return [log.sources(c.number, recorded) if c.is_followed and not c.is_variable else [] for c in captures]


def written(log: OperationLog, captures: Sequence[Capture], recorded: Mapping[Key, int]) -> dict[Key, WrittenVersion]:
    """Return the writes to Variables while the program ran, each by the key of the version that it made. Writes whose
    line or inputs are unknown are left out.
    """
    found: dict[Key, WrittenVersion] = {}
    if not log.is_written:
        return found
    followed, held = frozenset(recorded.values()), dict[int, list[Key]]()
    for capture in captures:
        if capture.is_variable and capture.number in log.variables:
            held.setdefault(capture.number, []).append(capture.key)
    for keys in held.values():
        last = min(keys)
        for key in sorted(set(keys))[1:] if last[1] == 0 else ():
            known = log.written(key[0], key[1], last[1])
            source = None if known is None else source_at(*known[1])
            if known is not None and source is not None:
                given = sorted({at for number in known[0] for at in log.nearest(number, recorded)})
                before = [recorded[last]] if known[2] and last in recorded else []
                found[key] = WrittenVersion(source, (*before, *given), followed)
            last = key
    return found


def _gradients(
    tape: Any, log: OperationLog, root: Root, captures: Sequence[Capture], recorded: Mapping[Key, int]
) -> dict[Key, Any]:
    # Return the gradient of each capture that the tape follows, by key. It is None if the capture is not connected, and
    # the reason ``MIXED`` if its gradient exists only as part of a sum.
    leading = log.before(map(identity, root.targets)) if log.is_written else ()
    several = {key: _sources(captures[at], log, leading) for key, at in recorded.items()}
    sources = {key: own for key, own in several.items() if own is not None}
    # one flat list, because TensorFlow is slow with nested ones
    flat = [one for own in sources.values() for one in own]
    with run_once.heard(run_once.whole) if log.cuts.once else nullcontext():
        given = iter(_given(tape, root, flat))
    return {key: MIXED if own is None else _sum([next(given) for _ in own]) for key, own in several.items()}


def _given(tape: Any, root: Root, flat: Sequence[Any]) -> Sequence[Any]:
    # Return the gradients. Raises NothingToDifferentiate if the program has already differentiated a tf.py_function on
    # the way.
    try:
        gradients: Sequence[Any] = tape.gradient(root.output, flat, output_gradients=root.cotangent)
    except tf.errors.UnknownError as error:
        if not private.is_of_forgotten_function(error):
            raise
        raise NothingToDifferentiate(
            "a tf.py_function can be differentiated once, and that was done before",
            asked="its gradients",
            found="a tf.py_function whose gradient has been taken, as by a tape of the program's own",
            why="TensorFlow forgets what such a function has computed as soon as its gradient is taken",
            next="TensorFlow's own operations in the place of tf.py_function",
        ) from error
    return gradients


def _sources(capture: Capture, log: OperationLog, leading: Container[int]) -> list[Any] | None:
    # Return the tensors whose gradients sum to the gradient of a capture. For one version of a Variable that was
    # written, these are its reads. None if that gradient exists only as part of a sum.
    uses = log.variables.get(capture.number)
    if uses is None or not uses.writes:
        return [capture.source]
    return uses.sources(capture.source, capture.version, leading)


def _sum(parts: Sequence[Any]) -> Any:
    found = [part if is_eager(part) else tf.convert_to_tensor(part) for part in parts if part is not None]
    return None if not found else found[0] if len(found) == 1 else tf.add_n(found)


def _found(capture: Capture, gradient: Any, log: OperationLog) -> tuple[GradStatus, Reason | None]:
    # Return the status of a capture, and the reason if it has no gradient.
    if not capture.is_followed:
        return capture.status, capture.why
    if gradient is MIXED:
        return GradStatus.OPAQUE, MIXED
    if gradient is None:
        uses = log.variables.get(capture.number)
        is_old = uses is not None and len(uses.writes) > capture.version
        return GradStatus.NOT_CONNECTED, WRITTEN_SINCE if is_old else NOT_CONNECTED
    return GradStatus.OK, None


def _links(
    log: OperationLog, captures: Sequence[Capture], recorded: Mapping[Key, int], statuses: Sequence[GradStatus]
) -> list[list[int]]:
    # Return, for each capture, the positions of the captures that flow directly into it. A capture that is not
    # connected to the output is left out as a source of one with a gradient: the operation between them, such as
    # tf.round, has no derivative.
    dead = {at for at, status in enumerate(statuses) if status is GradStatus.NOT_CONNECTED}
    found = sources(log, captures, recorded)
    if not dead:
        return found
    return [
        [at for at in own if status is not GradStatus.OK or at not in dead]
        for own, status in zip(found, statuses, strict=True)
    ]


def _visited(log: OperationLog, captures: Sequence[Capture], outcomes: Sequence[Outcome]) -> tuple[int, ...]:
    # Return the captures with a gradient in reverse order of creation, which is the order in which backward visits
    # them.
    there = [at for at, outcome in enumerate(outcomes) if outcome.status is GradStatus.OK]
    return tuple(sorted(there, key=lambda at: log.position(captures[at].number), reverse=True))
