"""A recording in JAX: the program runs once under ``jax.linearize``, with a tap on each of its values."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from backprobe.backends.capabilities import Staging
from backprobe.backends.facts import Around, Backward, Options, Ran
from backprobe.backends.jax import calls, equinox_wrappers, linen_calls, models, private
from backprobe.backends.jax.arguments import Lifted, exchange
from backprobe.backends.jax.backward import UNSEEN, differentiate, undifferentiated
from backprobe.backends.jax.control_flow import CALLS, CHECKPOINTS
from backprobe.backends.jax.linear_flow import computed_from
from backprobe.backends.jax.linearized import LinearProgram
from backprobe.backends.jax.primitives import TAPS, Tap, concrete, peek_p, tap_p, traces_around
from backprobe.backends.jax.replaced_values import JaxReplaces
from backprobe.backends.jax.tensors import describe, is_array, is_floating
from backprobe.backends.jax.transformations import Staged, trace
from backprobe.backends.protocol import Tape
from backprobe.backends.refusals import refuse_cotangent
from backprobe.errors import BackprobeError, BadOutput, NothingToDifferentiate


class JaxTape(calls.JaxCallables, JaxReplaces, Tape, Staging):
    """Implements ``Tape`` for JAX."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.taps: dict[int, Tap] = {}  # by the id of a value, and of each tensor that represents the value
        self.kept: list[Any] = []  # the values in ``taps``, because Python may reuse the ids of dead objects
        self.seed: Any = None  # a differentiated zero, from which other zeros are made
        self.level: Any = None
        self.around: list[Any] = []  # the transformations inside which the probe was called
        self.program: LinearProgram | None = None  # for a program without an output that can be differentiated
        self.applying = 0  # the number of running calls of linen's ``apply``
        self.depth = 0  # the number of nested calls that JAX is tracing
        self.states: dict[int, str] = {}  # by id: tensors that a model holds besides its parameters: see ``Tap``
        self.changes: dict[int, Callable[[Any], Any]] = {}  # functions that change gradients, see ``JaxReplaces``
        # by id: values without a derivative that are computed from differentiated ones
        self.cut: dict[int, Any] = {}
        self.zeros: dict[int, Any] = {}  # by id: the zeros that perturb values inside loops, branches and checkpoints
        self.was_cut = False  # was a value added to ``cut`` since the last capture outside of traced calls?

    # Methods for tensors.

    is_tensor = staticmethod(is_array)
    partly_tensors = (jax.Array, jax.core.Tracer)  # also the classes of random keys, ``Ref`` and tokens
    opened = staticmethod(models.opened)
    describe = staticmethod(describe)

    def is_floating(self, tensor: Any) -> bool:
        return bool(jnp.issubdtype(tensor.dtype, jnp.inexact))

    def is_differentiated(self, value: Any) -> bool:
        return private.carried(value, self.level) is not None

    def concrete(self, tensor: Any) -> Any:
        return concrete(self.level, tensor)

    def cotangent(self, output: Any, cotangent: Any) -> Any:
        try:
            return jnp.asarray(cotangent, output.dtype)
        except (TypeError, ValueError) as error:
            refuse_cotangent(cotangent, f"jnp.ones({tuple(output.shape)})", error)

    # Methods for the forward and backward pass.

    def run(
        self,
        program: Callable[[Mapping[str, Any]], Ran],
        inputs: Mapping[str, Any],
        wrt: frozenset[str] | None,
        undo: list[Callable[[], None]],
    ) -> tuple[Any, Sequence[Backward]]:
        lifted = Lifted(inputs, wrt)
        found: list[tuple[Any, Ran]] = []
        failed: list[BackprobeError] = []

        def differentiated(seed: Any, *tracers: Any) -> list[Any]:
            """Return the outputs, followed by the other values, because JAX drops every value that leads to no
            output.
            """
            self.seed, self.level = seed, private.trace_of(seed)
            self.around = list(traces_around(self.level))
            for at, tracer in enumerate(tracers):
                self._is_state(tracer, lifted.state(at))
            try:
                with private.hearing_operations(self.level, self._operation):
                    ran = program(lifted.filled([self.tap(tracer) for tracer in tracers]))
                found.append((exchange(ran.result, partial(concrete, self.level)), ran))
                return [*(self._home(root.output) for root in ran.roots), *self._carried(ran.captures)]
            # which value flows into which is only known after JAX has finished
            except (BadOutput, NothingToDifferentiate) as error:
                failed.append(error)
                return [seed, *self._carried(list(dict.fromkeys(self.taps.values())))]
            finally:
                lifted.give_back(tracers, self._home, partial(concrete, self.level))

        given = [jnp.zeros(()), *lifted.arrays]
        outputs, derivative = jax.linearize(differentiated, *given)
        for error in failed:
            self.program = LinearProgram(derivative, given, len(outputs), {tap.key for tap in self.taps.values()})
            raise error
        ((result, ran),) = found
        if not self.options.backward:
            linear = LinearProgram(derivative, given, len(outputs), {tap.key for tap in ran.captures})
            return result, [undifferentiated(linear, ran.captures)]
        return result, differentiate(self.options, derivative, given, len(outputs), ran)

    def _carried(self, captures: Sequence[Tap]) -> list[Any]:
        # Return those of these values that depend on differentiated values.
        known = [tap for tap in captures if tap.captured and not tap.lost and not tap.opaque]
        seen = [tap.tapped if tap.outside is None else tap.outside for tap in known]
        others = [private.carried(tensor, self.level) for tensor in seen]
        return [other for other in others if other is not None]

    @property
    def unfinished(self) -> Callable[[Sequence[Any]], Backward] | None:  # type: ignore[override]  # a property here, an attribute there: it is None until the program has run
        return None if self.program is None else partial(undifferentiated, self.program)

    def _operation(
        self,
        name: str,
        is_custom: bool,
        given: Sequence[Any],
        made: Sequence[Any],
        inputs_of: Callable[[int], Sequence[Any]],
    ) -> None:
        # Called when an operation has run at the program's level. Its operands need not be differentiated.
        level = self.level
        others = [at for at, one in enumerate(made) if getattr(one, "_trace", None) is not level]
        if others and any(map(self._is_computed, given)):
            # for a library's compiled function with several results it is unknown which inputs each result depends on
            is_known = name not in CALLS
            cut = [
                made[at] for at in others if len(made) == 1 or (is_known and any(map(self._is_computed, inputs_of(at))))
            ]
            self.cut.update((id(one), one) for one in cut)
            self.was_cut = self.was_cut or bool(cut)

    def _is_computed(self, tensor: Any) -> bool:
        # Is the tensor differentiated, or computed from a differentiated value?
        return id(tensor) in self.cut or (self.is_differentiated(tensor) and id(tensor) not in self.zeros)

    def _home(self, tensor: Any) -> Any:
        # Return the tensor of the program itself that a traced tensor represents; any other tensor is returned
        # unchanged.
        known = self.taps.get(id(tensor))
        return tensor if known is None else known.tapped

    # Methods for taps.

    def tap(self, value: Any) -> Any:
        if not (isinstance(value, jax.core.Tracer) and is_floating(value)):
            if models.is_sparse(value):
                return jax.tree.map(self.tap, value)
            for variable in models.variables(value):  # each transformation has new Variables of Flax NNX
                variable.set_raw_value(self.tap(variable.get_raw_value()), _unsafe_bypass_check=True)
            return value
        known = self.taps.get(id(value))
        if known is None:
            known = self._know(value, Tap(change=self.changes.get(id(value))))
            if not known.is_hidden:
                TAPS[known.key] = known
                known.tapped = tap_p.bind(value, tap_key=known.key, batch=0)
                self._know(known.tapped, known)
        return known.tapped

    def _know(self, tensor: Any, tap: Tap) -> Tap:
        # Let this tap represent the tensor.
        if tap.tapped is None:
            tap.state = self.states.get(id(tensor))
            tap.lost, tap.tapped = self.depth > 0, tensor
            tap.level = None if self.depth else self.level
            tap.opaque = UNSEEN if tap.lost or self._is_unseen(tensor) else None
        self.taps[id(tensor)] = tap
        self.kept.append(tensor)
        return tap

    def _is_state(self, tensor: Any, kind: str | None) -> None:
        # Note that a model holds this tensor besides its parameters, if ``kind`` is not None.
        if kind is not None:
            self.states[id(tensor)] = kind
            self.kept.append(tensor)

    def _goes_in(self, outside: Any, inside: Any) -> None:
        # Note which tracer represents a value while JAX traces a call to which the value was passed.
        known = self.taps.get(id(outside))
        self._is_state(inside, None if known is None else known.state)

    def _is_unseen(self, tensor: Any) -> bool:
        # Does the tensor belong to a transformation that the program calls and that is not staged?
        if self.depth or not isinstance(tensor, jax.core.Tracer) or self.is_differentiated(tensor):
            return False
        return private.trace_of(tensor) not in self.around

    def _take_value(self, tap: Tap) -> None:
        # Read a value directly if it has no differentiated inputs. Such a value has no tangent, so no derivative rule
        # sees it.
        if not self.depth and tap.captured and private.carried(tap.tapped, self.level) is None:
            tap.value = tap.tapped

    def capture(self, tensor: Any, around: Callable[[], Around]) -> Tap:
        known = self.taps.get(id(tensor))
        if known is None:  # the value is an integer, or does not depend on differentiated values
            known = self._know(tensor, Tap())
        if not known.captured:
            known.captured = True
            if not isinstance(tensor, jax.core.Tracer):
                known.value, known.lost, known.opaque = tensor, False, None  # an array, so its numbers are known
            elif not known.is_hidden:
                self._peek(known)
            known.dtype, (known.reads, known.unrecorded) = describe(tensor).dtype, around()
            if not self.depth:
                known.is_computed = self._is_computed(tensor) or (None if self.was_cut else False)
                self.was_cut = False
            known.settle()
        return known

    def _peek(self, tap: Tap) -> None:
        # Set the value of a tap. It is available immediately if the probe's own trace holds it. Otherwise an operation
        # that reports it is added to the program.
        if not self.depth and private.trace_of(tap.tapped) is self.level:
            tap.value = private.primal(tap.tapped)
            return
        TAPS[tap.key] = tap
        peek_p.bind(tap.tapped, tap_key=tap.key, batch=0)
        self._take_value(tap)

    def identity(self, tensor: Any) -> int:
        known = self.taps.get(id(tensor))
        return id(tensor) if known is None else id(known)

    def outside(self, capture: Tap) -> Any:
        if capture.lost or capture.opaque or capture.ran is False:
            return None
        tensor = capture.tapped if capture.outside is None else capture.outside
        is_own = not isinstance(tensor, jax.core.Tracer) or private.trace_of(tensor) in (self.level, *self.around)
        return tensor if is_own else None

    def is_discarded(self, capture: Tap) -> bool:
        return capture.lost and not self.depth

    # Methods for calls.

    def called(self, function: Any, modules_too: bool) -> tuple[Any, Callable[..., Any]] | None:
        found = super().called(function, modules_too)
        if private.is_staged(function):
            return function if found is None else found[0], self.staged
        if found is not None and equinox_wrappers.is_tracing(function):
            return found[0], partial(equinox_wrappers.trace_around, self.staged, function)
        is_running = self.level is not None  # if not, this calls the probed function
        if found is None and is_running and (applied := linen_calls.applied(function)) is not None:
            return applied[0], partial(self._applying, applied[1])
        if found is None and self.applying and (inside := linen_calls.called(function)) is not None:
            return inside
        # Flax reports calls of linen modules itself
        by_path = found is None and not modules_too and models.kind(function) == "linen"
        return (function, operator.call) if by_path else found

    def _applying(self, call: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        # Run a linen module that a function calls. Its submodules are recorded as functions, unlike those of a probed
        # model.
        self.applying += 1
        for tensor, kind in linen_calls.states(*args[1:], **kwargs):
            if id(tensor) in self.taps:
                self.taps[id(tensor)].state = kind
        try:
            return call(*args, **kwargs)
        finally:
            self.applying -= 1

    def higher_order(self, function: Any) -> Callable[..., Any] | None:
        is_traced = function in calls.TRACING
        return partial(self.staged, function) if is_traced else super().higher_order(function)

    def staged(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Call a function that JAX traces; see ``backprobe.backends.jax.transformations``."""
        if self.depth or self._is_inside(args, kwargs):
            return function(*args, **kwargs)
        self.depth += 1
        try:
            closed, result_of, inputs = trace(function, args, kwargs, self._goes_in)
        finally:
            self.depth -= 1
        inlined = (*CALLS, *CHECKPOINTS) if self.options.partials else CALLS  # partials need edges outside of calls
        for key, is_computed in computed_from(closed, [*map(self._is_computed, (*closed.consts, *inputs))]).items():
            if key in TAPS:
                TAPS[key].is_computed = is_computed
        staged = Staged(self.level, self._zero, self._settle, inlined)
        return result_of(staged.run(closed, inputs))

    def _is_inside(self, args: Any, kwargs: Any) -> bool:
        # Is the call made inside a transformation that is not staged?
        tracers = [leaf for leaf in jax.tree.leaves((args, kwargs)) if isinstance(leaf, jax.core.Tracer)]
        return any(private.trace_of(tracer) not in (self.level, *self.around) for tracer in tracers)

    def _settle(self, tap: Tap, tapped: Any) -> None:
        # Let a tensor of the program represent a traced value from now on.
        tap.tapped, tap.lost = tapped, False
        self._know(tapped, tap)
        self._take_value(tap)

    def _zero(self, key: int, like: Any) -> Any:
        zero = tap_p.bind(jnp.broadcast_to(self.seed.astype(like.dtype), like.shape), tap_key=key, batch=0)
        TAPS[key].has_tangent = False  # becomes True if the perturbed inner value has a tangent
        self.zeros[id(zero)] = zero
        return zero

    def release(self) -> None:
        for held in (self.taps, self.kept, self.around, self.states, self.changes, self.cut, self.zeros):
            held.clear()
        self.seed = self.level = self.program = None
