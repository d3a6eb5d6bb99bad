"""A recording in JAX: the program runs once under ``jax.linearize``, with a tap on each of its values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from backprobe.backends.base import Backward, Description, Effect, Options, Ran
from backprobe.backends.jax import calls, private
from backprobe.backends.jax.arguments import Lifted, exchange
from backprobe.backends.jax.backward import differentiate
from backprobe.backends.jax.primitives import TAPS, Tap, concrete, peek_p, tap_p
from backprobe.backends.jax.staged import Staged, trace
from backprobe.backends.jax.tensors import describe, is_array
from backprobe.errors import BadOutput
from backprobe.record import GradStatus


class JaxTape:
    """JAX's ``Tape``."""

    exchanges = True

    def __init__(self, options: Options) -> None:
        self.options = options
        self.taps: dict[int, Tap] = {}  # by identity of a value and of what stands for it, which a tap keeps alive
        self.seed: Any = None  # a zero that is differentiated, from which others are made
        self.level: Any = None
        self.depth = 0  # of the calls that JAX is tracing

    def quiet(self) -> AbstractContextManager[Any]:
        return nullcontext()

    # what a tensor is

    def is_tensor(self, value: Any) -> bool:
        return is_array(value)

    def is_floating(self, tensor: Any) -> bool:
        return bool(jnp.issubdtype(tensor.dtype, jnp.inexact))

    def is_complex(self, tensor: Any) -> bool:
        return bool(jnp.issubdtype(tensor.dtype, jnp.complexfloating))

    def size(self, tensor: Any) -> int:
        return int(tensor.size)

    def describe(self, tensor: Any) -> Description:
        return describe(tensor)

    def version(self, tensor: Any) -> int:
        return 0

    def is_differentiated(self, value: Any) -> bool:
        return private.reaches(value, self.level)

    def cotangent(self, output: Any, cotangent: Any) -> Any:
        try:
            return jnp.asarray(cotangent, output.dtype)
        except (TypeError, ValueError) as error:
            raise BadOutput(
                "the cotangent is no tensor", asked=f"cotangent={cotangent!r}", found=str(error).split("\n")[0],
                next=f"cotangent=numpy.ones({tuple(output.shape)})",
            ) from error  # fmt: skip

    def ones_like(self, output: Any) -> Any:
        return jnp.ones(output.shape, output.dtype)

    # forward and backward

    def run(
        self,
        program: Callable[[Mapping[str, Any]], Ran],
        inputs: Mapping[str, Any],
        wrt: frozenset[str] | None,
        undo: list[Callable[[], None]],
    ) -> tuple[Any, Backward]:
        lifted = Lifted(inputs, wrt)
        found: list[tuple[Any, Ran]] = []

        def differentiated(seed: Any, *tracers: Any) -> list[Any]:
            """The output, and the other values too: JAX keeps nothing of what leads to no output."""
            self.seed, self.level = seed, private.trace_of(seed)
            try:
                ran = program(lifted.filled(tracers))
                found.append((exchange(ran.result, concrete), ran))
                others = [tap.tapped for tap in ran.captures if not tap.lost and self.is_differentiated(tap.tapped)]
                return [self._home(ran.output), *others]
            finally:
                lifted.give_back(tracers, self._home, concrete)

        given = [jnp.zeros(()), *lifted.arrays]
        _, derivative = jax.linearize(differentiated, *given)
        ((result, ran),) = found
        return result, differentiate(self.options, derivative, given, ran)

    def _home(self, tensor: Any) -> Any:
        """What stands for a tensor in the program itself, where that was traced before."""
        known = self.taps.get(id(tensor))
        return tensor if known is None else known.tapped

    # taps

    def tap(self, value: Any) -> Any:
        if not (isinstance(value, jax.core.Tracer) and is_array(value) and self.is_floating(value)):
            return value
        known = self.taps.get(id(value))
        if known is None:
            known = Tap(self.level, value, depth=self.depth, lost=self.depth > 0)
            TAPS[known.key] = known
            known.tapped = tap_p.bind(value, key=known.key, batch=0)
            self.taps[id(value)] = self.taps[id(known.tapped)] = known
        return known.tapped

    def _peek(self, tap: Tap) -> None:
        TAPS[tap.key] = tap
        peek_p.bind(tap.tapped, key=tap.key, batch=0)
        if tap.value is None and not self.depth:
            tap.value = tap.tapped  # a tracer of a jit around the probe, which no rule sees

    def capture(self, tensor: Any, reads: Sequence[Tap], unrecorded: bool, previous: Tap | None, through: bool) -> Tap:
        known = self.taps.get(id(tensor))
        if known is None:  # it does not depend on what is differentiated, or is an integer
            known = Tap(self.level, tensor, tensor, depth=self.depth, lost=self.depth > 0)
            self.taps[id(tensor)] = known
        if not known.captured:
            known.captured = True
            if isinstance(tensor, jax.core.Tracer):
                self._peek(known)
            else:
                known.value, known.lost = tensor, False
            known.status, known.reason = self._without_tangent(tensor, reads, unrecorded)
        return known

    def _without_tangent(self, tensor: Any, reads: Sequence[Tap], unrecorded: bool) -> tuple[GradStatus, str]:
        """Why a value has no gradient, should it turn out that it depends on nothing that is differentiated."""
        if not self.is_floating(tensor):
            return GradStatus.NOT_FLOAT, f"its dtype is {describe(tensor).dtype}"
        if unrecorded or any(read.has_tangent for read in reads):
            return (
                GradStatus.DETACHED, "it was computed from values that are differentiated, but carries no history"
            )  # fmt: skip
        cut = [read for read in reads if not read.has_tangent and read.status is GradStatus.DETACHED]
        if cut:
            return GradStatus.DETACHED, "it was computed from a value that is itself detached"
        return GradStatus.FROZEN, "nothing that it was computed from requires a gradient"

    def identity(self, tensor: Any) -> int:
        known = self.taps.get(id(tensor))
        return id(tensor) if known is None else id(known)

    def is_lost(self, capture: Tap) -> bool:
        return capture.lost and not self.depth

    # calls

    def effect(self, function: Any, flagged: bool) -> Effect:
        return Effect.READS

    def is_compiled(self, function: Any) -> bool:
        return False

    def called(self, function: Any, modules_too: bool) -> tuple[Any, Callable[..., Any]] | None:
        inside = calls.jitted(function)
        if inside is not None:
            return inside, _call
        return (function, self.staged) if private.is_staged(function) else None

    def higher_order(self, function: Any) -> Callable[..., Any] | None:
        if calls.traces_its_arguments(function):
            return partial(self.staged, function)
        return function if calls.calls_its_arguments(function) else None

    def staged(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Call what JAX traces; see ``backprobe.backends.jax.staged``."""
        if self.depth or self._is_inside(args, kwargs):
            return function(*args, **kwargs)
        with self._deeper():
            closed, result_of, inputs = trace(function, args, kwargs)
        return result_of(Staged(self._zero, self._settle).run(closed.jaxpr, closed.consts, inputs))

    def _is_inside(self, args: Any, kwargs: Any) -> bool:
        """Is the call made inside a transformation that is not followed?"""
        tracers = [leaf for leaf in jax.tree.leaves((args, kwargs)) if self.is_differentiated(leaf)]
        return any(private.trace_of(tracer) is not self.level for tracer in tracers)

    @contextmanager
    def _deeper(self) -> Iterator[None]:
        self.depth += 1
        try:
            yield
        finally:
            self.depth -= 1

    def _settle(self, tap: Tap, tapped: Any) -> None:
        """A value that was traced has become one of the program's own."""
        tap.earlier, tap.tapped, tap.lost = tap.tapped, tapped, False
        self.taps[id(tapped)] = tap

    def _zero(self, key: int, like: Any) -> Any:
        zero = tap_p.bind(jnp.broadcast_to(self.seed.astype(like.dtype), like.shape), key=key, batch=0)
        TAPS[key].has_tangent = False  # until the value inside that it perturbs turns out to have one
        return zero

    # writes, which there are none of

    def targets(self, function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Any]:
        return []

    def writing(self, tensor: Any) -> None: ...

    def written(self, tensor: Any) -> None: ...

    def expose(self, tensor: Any) -> None: ...

    def release(self) -> None:
        self.taps.clear()
        self.seed = self.level = None


def _call(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    return function(*args, **kwargs)
