"""Observes the operations that TensorFlow reports, in one iteration of the program after another."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from math import prod
from typing import Any

import tensorflow as tf

from backprobe.backends.call_sites import Instruction
from backprobe.backends.tensorflow import layers, private
from backprobe.backends.tensorflow.hearing import also_hearing
from backprobe.backends.tensorflow.operation_log import RESOURCE, OperationLog
from backprobe.backends.tensorflow.private import dtype_number, identity_of, is_stopped, shape_of
from backprobe.backends.tensorflow.useless.distributions import Distributions
from backprobe.backends.tensorflow.useless.outcomes import Elementwise, Operation
from backprobe.backends.tensorflow.useless.picks import Picks
from backprobe.backends.tensorflow.useless.replay import RecordedOperation
from backprobe.backends.tensorflow.useless.shapes import Shapes
from backprobe.backends.tensorflow.useless.spots import spot
from backprobe.backends.useless.dropped import dropped_by
from backprobe.backends.user_lines import callers
from backprobe.source.user_code import package

MOST = 20_000
"""The most operations that are kept for one iteration. If there are more, none is kept."""
SMALL, SMALL_ELEMENTS = 2_000, 5_000_000
"""The limits of a small program: the number of operations, and of elements in their results. It is cheap to examine
again.
"""
HOMES = ("tensorflow", "backprobe")
"""The packages whose frames may lie between the program's line and the operation that the line runs."""
UNDONE = "Softmax"
"""The operation that Keras leaves out of a graph if its result is passed to a loss."""


class Operations:
    """Examines each operation after it has run, without changing anything."""

    def __init__(self) -> None:
        self.elementwise = Elementwise()
        self.is_off = self.is_backward = False
        self.begin(OperationLog(), ())

    def begin(self, log: OperationLog, suspicious: Collection[int] | None) -> None:
        """Begin an iteration. Operations that depend on ``suspicious`` Variables are kept.

        In the first iteration the suspicious Variables are not known (None). Then all operations are kept if the
        program is small.
        """
        self.log = log
        self.shapes = Shapes(self.elementwise, self._is_held)
        self.distributions = Distributions(self._is_computed, _is_undone)
        self.picks = Picks(self._is_computed)
        self.is_whole, self.elements = suspicious is None, 0
        self.suspicious, self.leading = frozenset(suspicious or ()), set(suspicious or ())
        self.recorded: list[RecordedOperation] = []
        self.dropped: dict[int, Instruction] = {}  # by the number of a result: the instruction that discards it
        self.trained: set[int] = set()  # tensors computed from watched Variables along paths that carry a gradient

    def listening(self) -> AbstractContextManager[None]:
        """Inside this context operations are observed."""
        return also_hearing(self._ran, self._has_own_gradient)

    @contextmanager
    def looking(self) -> Iterator[None]:
        """Code inside this context is not part of the program and is not observed. The first error is suppressed, and
        ends all observation.
        """
        try:
            with self.log.muted(), private.all_stopped():
                yield
        except Exception:  # noqa: BLE001  # the program goes on, and no more is said of it
            self.is_off = True
            self.begin(self.log, ())

    def _ran(
        self, kind: Any, inputs: Sequence[Any], attrs: Any, outputs: Any, op_name: Any = None, graph: Any = None
    ) -> None:
        if self.is_off or graph is not None or self.log.is_muted:
            return
        for each in map(identity_of, inputs) if self.dropped else ():
            self.dropped.pop(each, None)
        if not outputs or is_stopped():
            return
        with self.looking():
            numbers = [*map(identity_of, inputs)]
            one = Operation(kind.decode() if isinstance(kind, bytes) else str(kind), inputs, attrs or (), outputs)
            variables, followed = self.log.variables, self.log.followed
            if any(each in self.trained or (each in variables and each in followed) for each in numbers):
                self.trained.update(followed.intersection(map(identity_of, outputs)))
                if self.is_whole:
                    self.leading.update(each for each in numbers if each in variables)
            if self.leading and not self.leading.isdisjoint(numbers):
                self._keep(RecordedOperation(one, numbers, spot()))
            if not self.is_backward:
                self._look_at_use(one, numbers)
                self.shapes.look(one, numbers)
                self.distributions.look(one, numbers)
                self.picks.look(one, numbers)

    def _look_at_use(self, one: Operation, numbers: Sequence[int]) -> None:
        # Store the instruction if the program discards the result immediately. It is removed again if another operation
        # of the same call uses the result.
        if len(one.outputs) != 1 or identity_of(one.outputs[0]) not in self.trained:
            return
        running = ((frame.f_code, frame.f_lasti) for frame in callers(sys._getframe()))
        at = dropped_by(running, HOMES)
        if at is not None and self.trained.intersection(numbers) and not self._is_one_given(one):
            self.dropped[identity_of(one.outputs[0])] = at

    def _is_one_given(self, one: Operation) -> bool:
        # Does the operation run for its side effect, such as a check that returns its input?
        if private.is_stateful(one.kind) or any(dtype_number(given) == RESOURCE for given in one.inputs):
            return True
        made = one.outputs[0]
        alike = [given for given in one.inputs if given.dtype == made.dtype and shape_of(given) == shape_of(made)]
        return any(bool((given.numpy() == made.numpy()).all()) for given in alike)

    def _has_own_gradient(
        self, kind: Any, outputs: Sequence[Any], inputs: Sequence[Any], gradient: Callable[..., Any]
    ) -> None:
        if self.is_off or not self.leading or self.log.is_muted or is_stopped():
            return
        if any(map(tf.is_symbolic_tensor, (*outputs, *inputs))):
            return
        numbers = [*map(identity_of, inputs)]
        if not self.leading.isdisjoint(numbers):
            one = Operation(str(kind), tuple(inputs), (), tuple(outputs))
            self._keep(RecordedOperation(one, numbers, spot(), gradient))

    def _keep(self, one: RecordedOperation) -> None:
        self.leading.update(map(identity_of, one.operation.outputs))
        self.recorded.append(one)
        self.elements += prod(shape_of(one.operation.outputs[0]))
        is_large = self.is_whole and (self.elements > SMALL_ELEMENTS or len(self.recorded) > SMALL)
        if is_large or len(self.recorded) > MOST:
            self.is_whole = False
            self.leading.clear()
            self.recorded.clear()

    def _is_held(self, number: int) -> bool:
        # Is the tensor the value of a Variable?
        given = self.log.inputs(number)
        return bool(given) and all(one in self.log.variables for one in given)

    def _is_computed(self, number: int) -> bool:
        # Is the tensor computed from Variables, without being the value of one? A Variable may by chance start as a
        # distribution, with all elements 1/N.
        return number in self.trained and not self._is_held(number)

    def is_trained(self, tensor: Any) -> bool:
        """Is the tensor computed from watched Variables?"""
        return identity_of(tensor) in self.trained


def _is_undone(kind: str) -> bool:
    # Is a Keras loss running that would drop this operation in compiled code? In eager mode it keeps the operation.
    outside = (package(one.f_code.co_filename) for one in callers(sys._getframe()))
    by = next((one for one in outside if one not in ("backprobe", "tensorflow")), None)
    if kind != UNDONE or by != "keras":
        return False
    frames = [one.f_code for one in callers(sys._getframe())]
    return any(code in private.RUN_EAGERLY for code in frames) or layers.is_in_step_of_keras()
