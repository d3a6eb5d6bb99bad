"""Gradients, edges, local partials and path sums of the captured values, from the linearized program."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy

from backprobe.backends.facts import Backward, Options, Outcome, Ran
from backprobe.backends.immutable import path_sums, too_large
from backprobe.backends.jax.linear import LinearProgram
from backprobe.backends.jax.primitives import Tap
from backprobe.record.entries import GradStatus
from backprobe.record.inputs import Edge
from backprobe.record.reasons import Reason

NOT_CONNECTED, UNSEEN, NOT_TAKEN = Reason("no_path"), Reason("unseen_transform"), Reason("branch_not_taken")


def differentiate(options: Options, derivative: Callable[..., Any], inputs: Sequence[Any], ran: Ran) -> Backward:
    """One backward pass; then, where partials are asked for, one short pass from each captured value to its inputs."""
    captures: Sequence[Tap] = ran.captures
    position = {tap.key: at for at, tap in enumerate(captures)}
    program = LinearProgram(derivative, inputs, position)
    cotangent = jnp.ones(ran.output.shape, ran.output.dtype) if ran.cotangent is None else ran.cotangent
    gradients = program.gradients(_conjugate(cotangent))
    skipped = {tap.key for tap in captures if _was_skipped(tap)}
    sources = [
        sorted((key for key in program.flows_into(tap.key) if key not in skipped), key=position.__getitem__)
        if tap.key in program.marks
        else []
        for tap in captures
    ]
    found = _Links(program, options.partials, position)
    links = [
        found.of(tap, own, gradients.get(tap.key)) if options.partials else tuple(Edge(position[key]) for key in own)
        for tap, own in zip(captures, sources, strict=True)
    ]
    outcomes = [_outcome(tap, program, gradients, own) for tap, own in zip(captures, links, strict=True)]
    order = tuple(position[key] for key in program.live if key in position)
    output = next((at for at, tap in enumerate(captures) if tap.tapped is ran.output), None)
    is_traced = any(isinstance(outcome.grad, jax.core.Tracer) for outcome in outcomes)  # inside a jit, without numbers
    sums = path_sums(outcomes, output) if options.partials and not is_traced else None
    notes = [*found.notes, *((at, note) for at, tap in enumerate(captures) if (note := _partly(tap)))]
    return Backward(outcomes, order, sums, tuple(notes))


def _outcome(tap: Tap, program: LinearProgram, gradients: Mapping[int, Any], links: tuple[Edge, ...]) -> Outcome:
    status, why, gradient = _status(tap, program, gradients)
    value = None if tap.opaque or _was_skipped(tap) else tap.value
    return Outcome(status, why, value, gradient, links, axes=() if value is None else tap.axes)


def _was_skipped(tap: Tap) -> bool:
    """Was it in a branch that was not taken?"""
    return tap.ran is not None and not isinstance(tap.ran, jax.core.Tracer) and not numpy.any(tap.ran)


def _partly(tap: Tap) -> Reason | None:
    """In how many of the steps of the loops around it was it computed, where not in all?"""
    if tap.ran is None or isinstance(tap.ran, jax.core.Tracer) or _was_skipped(tap) or numpy.all(tap.ran):
        return None
    return Reason("steps", {"computed": str(numpy.sum(tap.ran)), "of": str(numpy.size(tap.ran))})


def _status(tap: Tap, program: LinearProgram, gradients: Mapping[int, Any]) -> tuple[GradStatus, Reason | None, Any]:
    if _was_skipped(tap):
        return GradStatus.NOT_EXECUTED, NOT_TAKEN, None
    if tap.opaque or tap.value is None:
        return GradStatus.OPAQUE, tap.opaque or UNSEEN, None
    if not tap.has_tangent or not jnp.issubdtype(tap.tapped.dtype, jnp.inexact):
        return tap.status, tap.why, None
    if tap.key in gradients:
        return GradStatus.OK, None, _conjugate(gradients[tap.key])
    return GradStatus.NOT_CONNECTED, NOT_CONNECTED, None


def _conjugate(gradient: Any) -> Any:
    """JAX's gradient of a complex value is the conjugate of PyTorch's and TensorFlow's, which is ours."""
    return jnp.conj(gradient) if jnp.issubdtype(gradient.dtype, jnp.complexfloating) else gradient


class _Links:
    """The edges into each value, with their local partials."""

    def __init__(self, program: LinearProgram, partials: bool | str, position: Mapping[int, int]) -> None:
        self.program, self.partials, self.position = program, partials, position
        self.notes: list[tuple[int, Reason]] = []

    def of(self, tap: Tap, sources: Sequence[int], gradient: Any) -> tuple[Edge, ...]:
        if not sources:
            return ()
        flow = self.program.local(tap.key, sources)
        like = self.program.like(tap.key)
        contributions = flow(gradient) if gradient is not None else [None] * len(sources)
        blocks = self._blocks(tap, sources, flow, like)
        return tuple(
            Edge(self.position[key], block, None if flowed is None else _conjugate(flowed))
            for key, block, flowed in zip(sources, blocks, contributions, strict=True)
        )

    def _blocks(self, tap: Tap, sources: Sequence[int], flow: Callable[[Any], Sequence[Any]], like: Any) -> list[Any]:
        size = math.prod(like.shape)
        real = not jnp.issubdtype(like.dtype, jnp.complexfloating)
        if size == 1 and real:
            return list(map(_conjugate, flow(jnp.ones(like.shape, like.dtype))))
        if self.partials != "full" or not real or not size:
            return [None] * len(sources)
        note = too_large(max(size * math.prod(self.program.like(source).shape) for source in sources))
        if note is not None:
            self.notes.append((self.position[tap.key], note))
            return [None] * len(sources)
        basis = jnp.eye(size, dtype=like.dtype).reshape(size, *like.shape)
        rows = jax.vmap(flow)(basis)
        return [_conjugate(row.reshape(*like.shape, *row.shape[1:])) for row in rows]
