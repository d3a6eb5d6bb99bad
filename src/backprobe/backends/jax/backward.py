"""Computes gradients, edges, local partials and path sums of the captured values from the linearized program."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy

from backprobe.backends.facts import Backward, Options, Outcome, Ran, Root
from backprobe.backends.immutable import path_sums, too_large
from backprobe.backends.jax.linearized import LinearProgram
from backprobe.backends.jax.primitives import Tap, as_array
from backprobe.backends.outcomes import with_flow
from backprobe.record.entries import GradStatus
from backprobe.record.inputs import Edge
from backprobe.record.reasons import Reason

NOT_CONNECTED, UNSEEN, NOT_TAKEN = Reason("no_path"), Reason("unseen_transform"), Reason("branch_not_taken")
UNFINISHED = Reason("backward_unfinished")

Edges = tuple[tuple[Edge, ...], Reason | None]
"""The edges into a value, and the reason why their partials are missing, or None."""


def differentiate(
    options: Options, derivative: Callable[..., Any], inputs: Sequence[Any], outputs: int, ran: Ran
) -> list[Backward]:
    """Run one backward pass from each root. The roots are the first outputs of the program."""
    captured = {tap.key for tap in ran.captures}
    first = LinearProgram(derivative, inputs, outputs, captured)
    programs = [first if not at else first.of_output(at) for at in range(len(ran.roots))]
    return [_passed(options, program, root, ran) for program, root in zip(programs, ran.roots, strict=True)]


def _passed(options: Options, program: LinearProgram, root: Root, ran: Ran) -> Backward:
    # Run one backward pass. If partials are requested, also run a short pass from each captured value to its inputs.
    captures: Sequence[Tap] = ran.captures
    position = {tap.key: at for at, tap in enumerate(captures)}
    cotangent = jnp.ones(root.output.shape, root.output.dtype) if root.cotangent is None else root.cotangent
    gradients, (_, *inputs) = program.gradients(_conjugate(cotangent))
    skipped = {tap.key for tap in captures if _was_skipped(tap)}
    outcomes, notes = [], []
    for at, tap in enumerate(captures):
        own = {key: at for key, at in _sources(program, tap, position).items() if key not in skipped}
        edges, note = tuple(map(Edge, own.values())), None
        if own and options.partials and tap.key not in program.inside:
            edges, note = _edges(program, tap, own, gradients.get(tap.key), options.partials == "full")
            edges = tuple(with_flow(edges, ran.flow))
        outcomes.append(_outcome(tap, program, gradients, edges))
        notes += [(at, why) for why in (note, _partly(tap)) if why is not None]
    order = tuple(position[key] for key in program.live if key in position)
    output = next((at for at, tap in enumerate(captures) if tap.tapped is root.output), None)
    # inside jit there are no numbers
    is_traced = any(isinstance(outcome.grad, jax.core.Tracer) for outcome in outcomes)
    is_summed = options.partials and not is_traced and ran.flow is None
    sums = path_sums(outcomes, output, _uncounted(program, position)) if is_summed else None
    return Backward(outcomes, order, sums, tuple(notes), inputs=inputs)


def _uncounted(program: LinearProgram, position: Mapping[int, int]) -> set[int]:
    # Return the positions of the values inside loops, branches and checkpoints, and of the values that flow into these.
    # Contributions along the edges between them cannot be counted.
    inside = program.inside & position.keys()
    into = (key for each in inside for key in program.flows.get(each, ()))
    return {position[key] for key in (*inside, *into)}


def undifferentiated(program: LinearProgram, captures: Sequence[Tap]) -> Backward:
    """Return the outcomes of a program that ran without being differentiated: only the edges between values are
    known.
    """
    position = {tap.key: at for at, tap in enumerate(captures)}
    program = program.of_captured(position)
    outcomes = []
    for tap in captures:
        outcome = _outcome(tap, program, {}, tuple(map(Edge, _sources(program, tap, position).values())))
        if outcome.status is GradStatus.NOT_CONNECTED:
            outcome = replace(outcome, status=GradStatus.BACKWARD_NOT_RUN, why=UNFINISHED)
        outcomes.append(outcome)
    return Backward(outcomes, ())


def _sources(program: LinearProgram, tap: Tap, position: Mapping[int, int]) -> dict[int, int]:
    # Return the captured values that flow into this value, by key, in the order of the record.
    #
    # A flow from a later value, in the previous step of a loop, is left out, because it would close a cycle.
    found = {key: position[key] for key in program.flows.get(tap.key, ())}
    return {key: found[key] for key in sorted(found, key=found.__getitem__) if found[key] < position[tap.key]}


def _outcome(tap: Tap, program: LinearProgram, gradients: Mapping[int, Any], links: tuple[Edge, ...]) -> Outcome:
    status, why, gradient = _status(tap, program, gradients)
    value = None if tap.opaque or _was_skipped(tap) or tap.value is None else as_array(tap.value)
    is_reached = status is GradStatus.NOT_CONNECTED and program.leaves_reached(tap.key)
    axes = () if value is None else tap.axes
    return Outcome(status, why, value, gradient, links, axes=axes, leaves_reached=is_reached)


def _was_skipped(tap: Tap) -> bool:
    # Was the value in a branch that was not taken?
    return tap.ran is not None and not isinstance(tap.ran, jax.core.Tracer) and not numpy.any(tap.ran)


def _partly(tap: Tap) -> Reason | None:
    # Return a note with the number of loop steps in which the value was computed; None if it was computed in all steps
    # or in none, or if there are no numbers yet.
    if tap.ran is None or isinstance(tap.ran, jax.core.Tracer) or _was_skipped(tap) or numpy.all(tap.ran):
        return None
    return Reason("steps", {"computed": str(numpy.sum(tap.ran)), "of": str(numpy.size(tap.ran))})


def _status(tap: Tap, program: LinearProgram, gradients: Mapping[int, Any]) -> tuple[GradStatus, Reason | None, Any]:
    if _was_skipped(tap):
        return GradStatus.NOT_EXECUTED, NOT_TAKEN, None
    if tap.opaque:
        return GradStatus.OPAQUE, tap.opaque, None
    if not jnp.issubdtype(tap.tapped.dtype, jnp.inexact):
        return tap.status, tap.why, None
    if tap.value is None:
        return GradStatus.OPAQUE, UNSEEN, None
    if not tap.has_tangent:
        tap.settle()
        return tap.status, tap.why, None
    if tap.key in gradients:
        return GradStatus.OK, None, _changed(tap, _conjugate(gradients[tap.key]))
    why = NOT_CONNECTED if tap.state is None else Reason("state_no_path", {"kind": tap.state})
    return GradStatus.NOT_CONNECTED, why, None


def _changed(tap: Tap, gradient: Any) -> Any:
    # Return the gradient as changed by the user's function, if there is one. The function is applied to each step and
    # example separately.
    change = tap.change
    if change is None or gradient is None:
        return gradient
    for _ in tap.axes:
        change = jax.vmap(change)
    return change(gradient)


def _conjugate(gradient: Any) -> Any:
    # Return the conjugate of JAX's gradient of a complex value. This is the convention of PyTorch and TensorFlow, which
    # backprobe uses.
    is_complex = gradient is not None and jnp.issubdtype(gradient.dtype, jnp.complexfloating)
    return jnp.conj(gradient) if is_complex else gradient


def _edges(program: LinearProgram, tap: Tap, sources: Mapping[int, int], gradient: Any, full: bool) -> Edges:
    # Return the edges into a value. They have partials if the value is a single real number or if full blocks are
    # requested; a reason is returned if the blocks are too large.
    flow, like = program.local(tap.key, list(sources)), program.like(tap.key)
    contributions = [None] * len(sources) if gradient is None else flow(gradient)
    size, real = math.prod(like.shape), not jnp.issubdtype(like.dtype, jnp.complexfloating)
    blocks: Sequence[Any] = [None] * len(sources)
    note = None
    if size == 1 and real:
        blocks = flow(jnp.ones(like.shape, like.dtype))
    elif full and real and size:
        note = too_large(max(size * math.prod(program.like(source).shape) for source in sources))
        if note is None:
            rows = jax.vmap(flow)(jnp.eye(size, dtype=like.dtype).reshape(size, *like.shape))
            blocks = [row.reshape(*like.shape, *row.shape[1:]) for row in rows]
    pairs = zip(sources.values(), map(_conjugate, blocks), map(_conjugate, contributions), strict=True)
    return tuple(Edge(at, block, flowed) for at, block, flowed in pairs), note
