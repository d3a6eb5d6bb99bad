"""Captures tensors while a program runs under a gradient tape, and collects the gradients that the tape returns."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from operator import itemgetter
from typing import Any

import numpy
import tensorflow as tf

from backprobe.backends.capabilities import Versions
from backprobe.backends.facts import Around, Backward, Effect, Options, Outcome, Ran
from backprobe.backends.patching import listening
from backprobe.backends.protocol import Tape
from backprobe.backends.refusals import refuse_cotangent
from backprobe.backends.tensorflow import private, tensors
from backprobe.backends.tensorflow.arguments import lift
from backprobe.backends.tensorflow.backward import by_key, differentiate, sources, written
from backprobe.backends.tensorflow.capture import Capture
from backprobe.backends.tensorflow.cuts import in_checkpoint
from backprobe.backends.tensorflow.functions import TensorflowCallables
from backprobe.backends.tensorflow.hearing import hearing_operations
from backprobe.backends.tensorflow.operation_log import OperationLog
from backprobe.backends.tensorflow.replaced_values import TensorflowReplaces
from backprobe.backends.tensorflow.taps import Taps
from backprobe.backends.tensorflow.tensors import is_differentiable, is_eager, read, variable_of
from backprobe.backends.user_lines import source_at
from backprobe.record.entries import GradStatus
from backprobe.record.inputs import Edge
from backprobe.record.reasons import Reason
from backprobe.record.source import Source


class ProbeTape(tf.GradientTape):  # type: ignore[misc]  # TensorFlow has no types
    """The gradient tape of a probe. Its class distinguishes it from the program's tapes."""


class TensorflowTape(TensorflowCallables, TensorflowReplaces, Tape, Versions):
    """Implements ``Tape`` for TensorFlow."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.log = OperationLog()
        self.taps = Taps()
        self.changed: dict[int, Any] = {}  # documented in ``TensorflowReplaces``
        self.latest: dict[int, Capture] = {}  # the latest capture of each Variable, by the number of its handle
        self.gradients: Any = None  # the gradient tape, while the program runs

    # Methods for optional capabilities.

    @property
    def tap(self) -> Callable[[Any], Any] | None:
        return self._tap if self.options.partials else None

    # Methods for tensors.

    @property
    def partly_tensors(self) -> tuple[type, ...]:
        """The types of Variables: some Variables count as tensors, but those without numbers, as in a graph, do not.
        Keras's type is looked up each time, because Keras may be imported later.
        """
        return tensors.VARIABLE, *filter(None, [getattr(sys.modules.get("keras"), "Variable", None)])

    def is_tensor(self, value: Any) -> bool:
        return tensors.is_tensor(value)

    describe = staticmethod(tensors.describe)
    opened = staticmethod(tensors.opened)
    identity = staticmethod(tensors.identity)

    def is_floating(self, tensor: Any) -> bool:
        return tensors.is_floating(tensors.plain(tensor).dtype)

    def is_differentiated(self, value: Any) -> bool:
        variable = variable_of(value)
        if variable is not None:
            # Keras freezes its own Variable but not the tf.Variable inside it, so a tape still watches the inner one
            return bool(value.trainable and variable.trainable) and is_differentiable(variable)
        return is_eager(value) and is_differentiable(value) and self.log.carries(value)

    def version(self, tensor: Any) -> int:
        """Return how many writes to a Variable were observed during the recording; 0 for tensors."""
        variable = None if type(tensor) is private.EagerTensor else variable_of(tensor)
        if variable is None:
            return 0
        number = private.identity_of(variable.handle)
        uses = self.log.variables.get(number)
        if uses is None:
            return 0
        latest = self.latest.get(number)
        if uses.is_in_doubt and latest is not None and latest.version == len(uses.writes):
            uses.is_in_doubt = False
            if not _equal(latest.value, self.read_unseen(variable)):
                self.log.write(uses)
        return len(uses.writes)

    # Methods for captures.

    def capture(self, tensor: Any, around: Callable[[], Around]) -> Capture:
        variable = variable_of(tensor)
        if variable is not None:
            return self._capture_variable(tensor, variable)
        number = private.identity_of(tensor)
        capture = Capture(self.changed.get(number, tensor), tensor, number)
        if not self.is_differentiated(tensor):
            capture.status, capture.why = self._why_not_followed(tensor, *around())
        return capture

    def _capture_variable(self, named: Any, variable: Any) -> Capture:
        number = private.identity_of(variable.handle)
        capture = Capture(variable, self.read_unseen(variable), number, self.version(variable), True)
        if not self.is_floating(variable):
            capture.status, capture.why = GradStatus.NOT_FLOAT, Reason("dtype", {"dtype": variable.dtype.name})
        elif not self.is_differentiated(named):
            capture.status, capture.why = GradStatus.FROZEN, Reason("not_trainable")
        self.latest[number] = capture
        return capture

    def read_unseen(self, variable: Any) -> Any:
        """Return the value of a Variable, read without being recorded by the tape or the log."""
        with self.log.muted():
            return private.unrecorded(read, variable)

    def _why_not_followed(self, tensor: Any, reads: Sequence[Capture], unrecorded: bool) -> tuple[GradStatus, Reason]:
        if not self.is_floating(tensor):
            return GradStatus.NOT_FLOAT, Reason("dtype", {"dtype": tensor.dtype.name})
        carried = next((read for read in reads if read.status in (GradStatus.DETACHED, GradStatus.NO_GRAD)), None)
        cut = self.log.cut.get(private.identity_of(tensor))
        if cut is GradStatus.OPAQUE:
            return cut, Reason("recomputed")
        cut = None if carried is not None else cut
        seen = (read.is_followed and (not read.is_variable or self.log.is_read(read.number)) for read in reads)
        if cut is None and (unrecorded or any(seen)) and not in_checkpoint():
            cut = GradStatus.NO_GRAD if private.is_stopped() else GradStatus.DETACHED
        if cut is not None:
            return cut, Reason("tape_stopped" if cut is GradStatus.NO_GRAD else "no_history")
        if carried is not None:
            return carried.status, Reason("inherited", {"status": str(carried.status)})
        return GradStatus.FROZEN, Reason("frozen")

    def unnamed(self, captures: Sequence[Capture]) -> list[tuple[str, Capture, int]]:
        """Return the trainable Variables that the program read, in each version that it read and that is not among
        these captures.
        """
        known = {capture.key for capture in captures if capture.is_variable}
        made = [self.log.made_at(capture.number) for capture in captures]
        found = []
        for variable in self.gradients.watched_variables():
            number = private.identity_of(variable.handle)
            uses = self.log.variables.get(number)
            if uses is None or not is_differentiable(variable):
                continue
            for version, position, value in uses.versions() or [(0, 0, self.read_unseen(variable))]:
                if (number, version) not in known:
                    capture = Capture(variable, value, number, version, True)
                    before = next((nth for nth, own in enumerate(made) if own > position), len(captures))
                    found.append((position, variable.name, capture, before))
        return [(name, capture, before) for _, name, capture, before in sorted(found, key=itemgetter(0))]

    def _tap(self, value: Any) -> Any:
        return self.taps.tap(value) if is_eager(value) and self.is_differentiated(value) else value

    # Methods for calls that may write. All calls count as unknown, because the log knows which Variables were written.

    def effect(self, function: Any, flagged: bool) -> Effect:
        return Effect.UNKNOWN

    # Methods for the forward and backward pass.

    def cotangent(self, output: Any, cotangent: Any) -> Any:
        try:
            given = cotangent if self.is_tensor(cotangent) else tf.convert_to_tensor(numpy.asarray(cotangent))
            return tf.cast(given, output.dtype)
        except (TypeError, ValueError, tf.errors.OpError) as error:
            refuse_cotangent(cotangent, f"tf.ones({tuple(output.shape)})", error)

    def run(
        self,
        program: Callable[[Mapping[str, Any]], Ran],
        inputs: Mapping[str, Any],
        wrt: frozenset[str] | None,
        undo: list[Callable[[], None]],
    ) -> tuple[Any, Sequence[Backward]]:
        with self.recorded() as tape:

            def watch(tensor: Any) -> Any:
                tape.watch(tensor)
                self.log.root(tensor)
                return tensor if self.tap is None else self.tap(tensor)

            ran = program(lift(inputs, wrt, undo, watch))
        self.settle(ran.captures)
        if not self.options.backward:
            return ran.result, [self.unfinished(ran.captures)]
        return ran.result, differentiate(tape, self.log, self.taps, self.options, ran)

    def undifferentiated(self) -> list[tuple[Reason, Source]]:
        read = [(dtype, place) for dtype, place in self.log.unfollowed.values() if place is not None]
        return [
            (
                Reason("dtype", {"dtype": dtype})
                if tf.as_dtype(dtype) not in tensors.DIFFERENTIABLE
                else Reason("not_trainable"),
                source_at(*place),
            )
            for dtype, place in read
        ]

    compiled_by = ""  # who compiled a training step, inside which nothing can be observed: a key of ``errors.COMPILED``
    counts = False  # documented in ``Differentiator``
    why_not: Reason | None = Reason("backward_unfinished")  # why backward has not run

    def unfinished(self, captures: Sequence[Capture]) -> Backward:
        recorded = by_key(captures)
        found = [GradStatus.BACKWARD_NOT_RUN if capture.is_followed else capture.status for capture in captures]
        links, wrote = sources(self.log, captures, recorded), written(self.log, captures, recorded)
        return Backward(
            [
                Outcome(
                    status,
                    self.why_not if capture.is_followed else capture.why,
                    capture.value,
                    None,
                    tuple(map(Edge, own)),
                    written=wrote.get(capture.key),
                )
                for capture, status, own in zip(captures, found, links, strict=True)
            ],
            (),
        )

    @contextmanager
    def recorded(self) -> Iterator[Any]:
        """Inside this context operations are recorded by the gradient tape and the log."""
        with (
            hearing_operations(self.log.operation, self.log.recorded, self.log.left),
            listening(*private.CALLED_FUNCTION, self._calling),
            listening(*private.NUMPY_FUNCTION, self.log.beside),
            ProbeTape(persistent=self.is_asked_again) as self.gradients,
        ):
            yield self.gradients

    @property
    def is_asked_again(self) -> bool:
        """May the gradient tape have to compute gradients more than once?"""
        return bool(self.options.partials or self.options.several)

    def _calling(self, following: Callable[..., Any], function: Any, /, *args: Any, **kwargs: Any) -> Any:
        # Call a compiled function. TensorFlow cannot differentiate some of them, such as one that draws from an
        # iterator. It raises LookupError before it runs such a function under a recording tape; then the function is
        # run without a tape.
        try:
            return following(function, *args, **kwargs)
        except LookupError:
            if not tf.executing_eagerly():
                raise
        with self.gradients.stop_recording(), self.log.without_derivatives():
            return following(function, *args, **kwargs)

    def settle(self, captures: Sequence[Capture]) -> None:
        """Find the captured Variables that compiled functions have written, after the program has ended."""
        for capture in captures:
            if capture.is_variable:
                self.version(capture.source)

    def release(self) -> None:
        """Release all tensors and tapes."""
        self.log = OperationLog()
        self.taps = Taps()
        self.latest.clear()
        self.changed.clear()
        self.gradients = None


def _equal(a: Any, b: Any) -> bool:
    # Are two tensors equal bit for bit?
    return bool(a.numpy().tobytes() == b.numpy().tobytes())
